"""The back-end verl: a recipe becomes Hydra overrides for `verl.trainer.main_ppo`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.backends.shared.installation_question import installation_question
from rlx.backends.shared.rendering import EffectiveSettings
from rlx.backends.verl.checks import check, rendering_of
from rlx.backends.verl.overrides import chosen
from rlx.backends.verl.planner import plan

if TYPE_CHECKING:
    from rlx.model import Installation, InstallationQuestion, Site
    from rlx.recipe import ResolvedRecipe

__all__ = ["check", "look", "plan", "settings"]
_PACKAGE = "verl"
_FOLDER = "trainer/config"


def settings(resolved: ResolvedRecipe, found: Installation | None = None) -> EffectiveSettings:
    """Return the key table's defaults with the command line over them. Raises UsageError if there is no table."""
    rendering = rendering_of(resolved, found)
    written: dict[str, object] = {}
    sources: dict[str, str] = {}
    removed: set[str] = set()
    for override in chosen(rendering):
        if override.prefix == "~":
            removed.add(override.key)
            continue
        for key, value in override.leaves():
            written[key], sources[key] = value, override.source
    return EffectiveSettings(rendering.version, rendering.table.defaults, written, sources, frozenset(removed))


def look(resolved: ResolvedRecipe, site: Site) -> InstallationQuestion:
    """Ask for the files of its configuration; nothing takes verl to be imported."""
    from rlx.backends.verl.trainers import program_of

    backend = resolved.recipe.backend
    entrypoint = program_of(backend, backend.version)
    return installation_question(resolved.recipe, site, _PACKAGE, _FOLDER, entrypoint)
