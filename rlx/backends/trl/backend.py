"""The back-end TRL: a recipe becomes the arguments of its GRPOTrainer, which one program of the payload starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.backends.shared.installation_question import installation_question
from rlx.backends.trl.arguments import settings_of
from rlx.backends.trl.checks import check, rendering_of
from rlx.backends.trl.planner import plan

if TYPE_CHECKING:
    from rlx.backends.shared.rendering import EffectiveSettings
    from rlx.model import Installation, InstallationQuestion, Site
    from rlx.recipe import ResolvedRecipe

__all__ = ["check", "look", "plan", "settings"]
_PACKAGE = "trl"
_FOLDER = "trainer"


def settings(resolved: ResolvedRecipe, found: Installation | None = None) -> EffectiveSettings:
    """GRPOConfig's defaults with the recipe's arguments over them. Raises UsageError where there is no table."""
    return settings_of(rendering_of(resolved))


def look(resolved: ResolvedRecipe, site: Site) -> InstallationQuestion:
    """Ask for its trainers, which are read and not run."""
    return installation_question(resolved.recipe, site, _PACKAGE, _FOLDER, _PACKAGE)
