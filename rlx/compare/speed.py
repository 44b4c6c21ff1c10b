"""Compare the speed of two arms block by block, and find when runs reach a value.

A single run per arm shows the load of its host as much as its arm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median, stdev

from rlx.compare.arms import ComparedArm, ComparedRun
from rlx.compare.statistic import t_test
from rlx.evidence import Evidence
from rlx.evidence.metrics import step_times

FEWEST_BLOCKS = 3
"""Arms with fewer are not compared in speed: their times stand alone."""


@dataclass(frozen=True, slots=True)
class SpeedChange:
    """Treatment against control, as a share of the control: 0.1 is 10 % more. `low` to `high`: the 95 % interval."""

    change: float
    low: float
    high: float


def blocks(control: ComparedArm, treatment: ComparedArm) -> tuple[tuple[ComparedRun, ComparedRun], ...]:
    """Return the runs of each seed, control first, if they were started one after the other; none where not all
    were.

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
    """Return the geometric mean of the ratios within blocks, less 1, with Student's interval over the blocks.

    `pairs`: the control's time (or rate) of each block, and the treatment's. They are compared by their logarithms, so
    that half as long and twice as long are equally far from 1. None for fewer than three blocks, where a run logged
    nothing, and where all ratios are equal.
    """
    ratios = [math.log(after / before) for before, after in pairs if before and after]
    if len(ratios) < max(len(pairs), FEWEST_BLOCKS) or not (error := stdev(ratios) / math.sqrt(len(ratios))):
        return None
    test = t_test(fmean(ratios), error, len(ratios) - 1)
    return SpeedChange(*(math.expm1(float(test.difference + way * test.half)) for way in (0, -1, 1)))


@dataclass(frozen=True, slots=True)
class Reached:
    """`step`: the first of two validations in a row at or above the value; None where there are no two by `last`.

    `seconds`: the time of all steps up to it, without the start of the run; None where a step did not log it.
    """

    label: str
    step: int | None
    last: int | None
    seconds: float | None


def reached(run: ComparedRun, evidence: Evidence, value: float) -> Reached:
    """Find when this run reached the value. One validation alone may be luck, the last one too: it does not count.

    Descriptive, no test: a curve that scatters more reaches any value sooner.
    """
    rows = pairwise(sorted(run.series.items()))
    step = next((step for (step, one), (_, other) in rows if one >= value and other >= value), None)
    return Reached(run.label, step, max(run.series, default=None), _seconds(evidence, step))


def median_step(found: Sequence[Reached]) -> float | None:
    """Return the median over the runs of an arm, those that never reached it later than all; None where half of them
    did not.

    None as well where a run ended early without reaching it: which run was faster is not known.
    """
    steps = sorted(each.step for each in found if each.step is not None)
    missed = [each.last or 0 for each in found if each.step is None]
    if 2 * len(steps) <= len(found) or (missed and min(missed) < steps[-1]):
        return None
    return median([*steps, *(float("inf") for _ in missed)])


def _seconds(evidence: Evidence, step: int | None) -> float | None:
    """Return the time of all steps up to this one; 0 for step 0."""
    if step is None:
        return None
    times = step_times(evidence)
    needed = range(1, step + 1)
    return sum(times[each] for each in needed) if all(each in times for each in needed) else None
