"""Compare how fast two arms were, block by block: one run an arm tells what else its host did at that time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from rlx.compare.compared_arms import ComparedArm, ComparedRun
from rlx.compare.student import t_test

FEWEST_BLOCKS = 3
"""Arms with fewer are not compared in speed: their times stand alone."""


@dataclass(frozen=True, slots=True)
class SpeedChange:
    """Treatment against control, as a share of the control: 0.1 is 10 % more. `low` to `high`: the 95 % interval."""

    change: float
    low: float
    high: float


def blocks(control: ComparedArm, treatment: ComparedArm) -> tuple[tuple[ComparedRun, ComparedRun], ...]:
    """The runs of each seed, control first, where they were started one after the other; none where not all were.

    Then what the host was busy with falls on both. Also none where an arm has a seed of its own, or twice, and where a
    run does not say when it was started.
    """
    of_seed = {run.seed: run for run in control.runs}
    pairs = [(of_seed[run.seed], run) for run in treatment.runs if run.seed in of_seed]
    runs = [*control.runs, *treatment.runs]
    if len({run.seed for run in treatment.runs}) < len(pairs) or 2 * len(pairs) < len(runs):
        return ()
    if any(run.started is None for run in runs):
        return ()
    order = [run.seed for run in sorted(runs, key=lambda run: run.started or 0.0)]
    return tuple(pairs) if order[::2] == order[1::2] else ()


def speed_change(pairs: Sequence[tuple[float | None, float | None]]) -> SpeedChange | None:
    """The geometric mean of the ratios within blocks, less 1, with Student's interval over the blocks.

    `pairs`: the control's time (or rate) of each block, and the treatment's. They are compared by their logarithms, so
    that half as long and twice as long lie equally far from 1. None for fewer than three blocks, where a run logged
    nothing, and where all ratios are equal.
    """
    ratios = [math.log(after / before) for before, after in pairs if before and after]
    if len(ratios) < max(len(pairs), FEWEST_BLOCKS) or not (error := stdev(ratios) / math.sqrt(len(ratios))):
        return None
    test = t_test(fmean(ratios), error, len(ratios) - 1)
    return SpeedChange(*(math.expm1(float(test.difference + way * test.half)) for way in (0, -1, 1)))
