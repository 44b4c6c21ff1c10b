"""Keep a training alive whose tracker fails: verl itself ends with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rlx.backends.verl.overrides.base import with_module

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

GUARD = "rlx_verl_track"


def environment(recipe: Recipe, others: Mapping[str, str]) -> dict[str, str]:
    """Name what the process that logs must see beside `others`."""
    return with_module(others, GUARD) if recipe.track is not None else {}
