"""The question which MindSpeed-RL a run would import on its host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.backends.shared.installation_question import installation_question

if TYPE_CHECKING:
    from rlx.model import InstallationQuestion, Site
    from rlx.recipe import ResolvedRecipe

_PACKAGE = "mindspeed_rl"
_FOLDER = "config_cls"


def look(resolved: ResolvedRecipe, site: Site) -> InstallationQuestion:
    """Ask for its configuration classes, which are read and not run. Raises UsageError without a checkout."""
    from rlx.backends.mindspeed_rl.planner import checkout_of, entrypoint_of

    recipe = resolved.recipe
    return installation_question(recipe, site, _PACKAGE, _FOLDER, entrypoint_of(recipe), (checkout_of(recipe),))
