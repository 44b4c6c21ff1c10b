"""When each run reached a value: for reading, no test, since a curve that scatters more gets anywhere sooner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from rlx.compare.align import Series
from rlx.compare.compared_arms import ComparedRun
from rlx.evidence import Evidence
from rlx.evidence.step_times import step_times


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
    """When this run reached the value. One validation alone may be luck, the last one too: it does not count."""
    step = _first_of_two(run.series, value)
    return Reached(run.label, step, max(run.series, default=None), _seconds(evidence, step))


def median_step(found: Sequence[Reached]) -> float | None:
    """The median over the runs of an arm, those that never reached it later than all; None where half of them did not.

    None as well where one that did not ended before another one did: nobody knows which of the two was faster.
    """
    steps = sorted(each.step for each in found if each.step is not None)
    missed = [each.last or 0 for each in found if each.step is None]
    if 2 * len(steps) <= len(found) or (missed and min(missed) < steps[-1]):
        return None
    return median([*steps, *(float("inf") for _ in missed)])


def _first_of_two(series: Series, value: float) -> int | None:
    rows = pairwise(sorted(series.items()))
    return next((step for (step, one), (_, other) in rows if one >= value and other >= value), None)


def _seconds(evidence: Evidence, step: int | None) -> float | None:
    """Where the step is 0 no time has passed."""
    if step is None:
        return None
    times = step_times(evidence)
    needed = range(1, step + 1)
    return sum(times[each] for each in needed) if all(each in times for each in needed) else None
