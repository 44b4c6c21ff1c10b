"""Derive the settings that verl will really get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.backends.shared.effective import EffectiveSettings
from rlx.backends.verl.checks import rendering_of
from rlx.backends.verl.overrides import chosen

if TYPE_CHECKING:
    from rlx.model import Installation
    from rlx.recipe import ResolvedRecipe


def settings(resolved: ResolvedRecipe, found: Installation | None = None) -> EffectiveSettings:
    """The key table's defaults with the command line over them. Raises UsageError if there is no table."""
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
