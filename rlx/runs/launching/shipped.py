"""One node of a run on its way to a host, with all that is not in its plan."""

from __future__ import annotations

from dataclasses import dataclass

from rlx.model import LaunchPlan
from rlx.runs.index.moves import Move
from rlx.runs.run import RunRef


@dataclass(frozen=True, slots=True)
class Shipped:
    """`position`: of the run in its launch. `block`: the name of its block on that host, empty for a run of no sweep.

    `moved`: the moves by which it comes there.
    """

    plan: LaunchPlan
    ref: RunRef
    position: int
    block: str = ""
    moved: tuple[Move, ...] = ()


def block_name(launch_id: str, seed: int, moves: int) -> str:
    """Another one after each move, so that a block may come back to a host that it was withdrawn from."""
    return f"{launch_id}-s{seed}-{moves}"
