"""Derive the arguments that TRL will really get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.backends.trl.arguments import settings_of
from rlx.backends.trl.checks import rendering_of

if TYPE_CHECKING:
    from rlx.backends.shared.effective import EffectiveSettings
    from rlx.model import Installation
    from rlx.recipe import ResolvedRecipe


def settings(resolved: ResolvedRecipe, found: Installation | None = None) -> EffectiveSettings:
    """GRPOConfig's defaults with the recipe's arguments over them. Raises UsageError where there is no table."""
    return settings_of(rendering_of(resolved))
