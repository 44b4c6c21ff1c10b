"""The same recipe in small: what `rlx rehearse` runs on this CPU. Derives and writes; starts nothing."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from rlx.backends.registry import optional_part, parts
from rlx.errors import UsageError
from rlx.planning.rehearsal.rows import write
from rlx.planning.rehearsal.tiny_shapes import tiny_model_of
from rlx.planning.rehearsal.twin import Change, Engine, Places, Rehearsal, Untold

if TYPE_CHECKING:
    from rlx.recipe import ResolvedRecipe


def rehearser_of(kind: str) -> ModuleType:
    """The back-end's part `rehearsal`. Raises UsageError where it has none."""
    found = optional_part(kind, "rehearsal")
    if found is None:
        able = " and ".join(other for other, _ in parts("rehearsal"))
        raise UsageError(f"backend.kind {kind}: only {able} is rehearsed on a CPU", "rlx validate checks the recipe")
    return found


def rehearsal_of(
    resolved: ResolvedRecipe, places: Places, secrets: tuple[str, ...] = (), engine: Engine | None = None
) -> Rehearsal:
    """The recipe in small. `secrets`: those of its secrets that are set here. `engine`: rlx's own rollout by default.

    Raises UsageError for what its back-end cannot rehearse; RlxError for data that is here and cannot be read.
    """
    made: Rehearsal = rehearser_of(resolved.recipe.backend.kind).rehearsal_of(
        resolved, places, secrets, engine or Engine()
    )
    return made


__all__ = [
    "Change",
    "Engine",
    "Places",
    "Rehearsal",
    "Untold",
    "rehearsal_of",
    "rehearser_of",
    "tiny_model_of",
    "write",
]
