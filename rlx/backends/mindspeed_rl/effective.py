"""What MindSpeed-RL will really be configured with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.backends.effective import EffectiveSettings
from rlx.backends.mindspeed_rl.checks import rendering_of
from rlx.backends.mindspeed_rl.sections import chosen, own_overrides

if TYPE_CHECKING:
    from rlx.plan import FoundTree
    from rlx.recipe import ResolvedRecipe


def settings(resolved: ResolvedRecipe, found: FoundTree | None = None) -> EffectiveSettings:
    """The classes' defaults with the YAML over them. Raises UsageError if there is no table, or no length."""
    rendering = rendering_of(resolved, found)
    overrides = chosen(rendering)
    return EffectiveSettings(
        rendering.version,
        rendering.table.defaults,
        {setting.key: setting.value for setting in overrides},
        {setting.key: setting.source for setting in overrides},
        frozenset(setting.key for setting in own_overrides(rendering) if setting.prefix == "~"),
    )
