"""Derive the settings that MindSpeed-RL will really get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.backends.mindspeed_rl.checks import rendering_of
from rlx.backends.mindspeed_rl.sections import settings_of

if TYPE_CHECKING:
    from rlx.backends.shared.effective import EffectiveSettings
    from rlx.model import Installation
    from rlx.recipe import ResolvedRecipe


def settings(resolved: ResolvedRecipe, found: Installation | None = None) -> EffectiveSettings:
    """The classes' defaults with the YAML over them. Raises UsageError if there is no table."""
    return settings_of(rendering_of(resolved, found))
