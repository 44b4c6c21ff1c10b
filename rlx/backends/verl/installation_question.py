"""The question which verl a run would import on its host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.backends.shared.installation_question import installation_question

if TYPE_CHECKING:
    from rlx.model import InstallationQuestion, Site
    from rlx.recipe import ResolvedRecipe

_PACKAGE = "verl"
_FOLDER = "trainer/config"


def look(resolved: ResolvedRecipe, site: Site) -> InstallationQuestion:
    """Ask for the files of its configuration; nothing takes verl to be imported."""
    from rlx.backends.verl.trainers import program_of

    backend = resolved.recipe.backend
    entrypoint = program_of(backend, backend.version)
    return installation_question(resolved.recipe, site, _PACKAGE, _FOLDER, entrypoint)
