"""The back-end MindSpeed-RL: a recipe becomes the YAML of one of its trainers, and a Ray for that run alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.backends.mindspeed_rl.checks import check, rendering_of
from rlx.backends.mindspeed_rl.planner import plan
from rlx.backends.mindspeed_rl.sections import settings_of
from rlx.backends.shared.installation_question import installation_question

if TYPE_CHECKING:
    from rlx.backends.shared.rendering import EffectiveSettings
    from rlx.model import Installation, InstallationQuestion, Site
    from rlx.recipe import ResolvedRecipe

__all__ = ["check", "look", "plan", "settings"]
_PACKAGE = "mindspeed_rl"
_FOLDER = "config_cls"


def settings(resolved: ResolvedRecipe, found: Installation | None = None) -> EffectiveSettings:
    """Return the classes' defaults with the YAML over them. Raises UsageError if there is no table."""
    return settings_of(rendering_of(resolved, found))


def look(resolved: ResolvedRecipe, site: Site) -> InstallationQuestion:
    """Ask for its configuration classes, which are read and not run. Raises UsageError without a checkout."""
    from rlx.backends.mindspeed_rl.planner import checkout_of, entrypoint_of

    recipe = resolved.recipe
    return installation_question(recipe, site, _PACKAGE, _FOLDER, entrypoint_of(recipe), (checkout_of(recipe),))
