"""Compare a logged learning rate with that of its schedule.

Some trainers log the rate before they advance the schedule and some after it, so that a step shows the rate of its own
number or of the one before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from rlx.evidence.run_evidence import TRAINED
from rlx.evidence.traces import COMPOSED_ONLY, TraceInput, TraceReading, TraceStatus
from rlx.evidence.verdict import at_steps

_SHORTEST = 0.05
"""Of the rate. verl 0.4 and older print three decimals, in which most learning rates are 0.000."""


class RateSchedule(NamedTuple):
    """The factor on the rate by step, and the steps of its warm-up. `is_planned`: the plan sets that warm-up."""

    factor: Callable[[float], float]
    warm_up: int = 0
    is_planned: bool = False


def constant(warm_up: int = 0, *, is_planned: bool = False) -> RateSchedule:
    """Return a constant rate after a linear warm-up."""
    return RateSchedule(lambda step: min(1.0, step / warm_up) if warm_up else 1.0, warm_up, is_planned)


def cosine(
    total: int, warm_up: int = 0, *, lowest: float = 0.0, cycles: float = 0.5, is_planned: bool = False
) -> RateSchedule:
    """Return a cosine from 1 to `lowest` after a linear warm-up."""

    def factor(step: float) -> float:
        if step < warm_up:
            return step / warm_up
        progress = (step - warm_up) / max(1, total - warm_up)
        middle, swing = (1 + lowest) / 2, (1 - lowest) / 2
        return max(lowest, middle + swing * math.cos(2 * math.pi * cycles * progress))

    return RateSchedule(factor, warm_up, is_planned)


def linear(total: int, warm_up: int = 0, *, is_planned: bool = False) -> RateSchedule:
    """Return a line from 1 to 0 after a linear warm-up."""

    def factor(step: float) -> float:
        return step / warm_up if step < warm_up else max(0.0, (total - step) / max(1, total - warm_up))

    return RateSchedule(factor, warm_up, is_planned)


def rate_reading(given: TraceInput, metric: str, rate: float | None, schedule: RateSchedule | None) -> TraceReading:
    """Compare the logged rate of each step with the schedule's. `schedule`: None where rlx does not know it."""
    logged = given.series(metric)
    if rate is None or given.rounding > _SHORTEST * rate or not (logged or given.has_trained):
        return COMPOSED_ONLY
    if schedule is None:
        return TraceReading(TraceStatus.NOT_OBSERVABLE, "rlx does not know the schedule of its learning rate")
    if not logged:
        return TraceReading(TraceStatus.SILENT, f"{metric} is not logged")
    wrong = min((_wrong(given, logged, rate, schedule, offset) for offset in (0, 1)), key=len)
    if wrong:
        expected = f"where the schedule gives {rate * schedule.factor(wrong[0]):g}"
        words = f"{metric} is {logged[wrong[0]]:g} at {at_steps(wrong)}, {expected}"
        return TraceReading(TraceStatus.CONTRADICTED, words, wrong[0])
    if schedule.warm_up > max(logged) and not schedule.is_planned:
        cause = f"the engine composed a warm-up of {schedule.warm_up} steps, which no plan sets"
        words = f"the highest {metric} is {max(logged.values()):g} of {rate:g}: {cause}"
        return TraceReading(TraceStatus.CONTRADICTED, words, min(logged))
    return _contradicted_by_records(given, rate, schedule) or TraceReading(
        TraceStatus.SHOWN, f"{metric} at {len(logged)} steps"
    )


def _contradicted_by_records(given: TraceInput, rate: float, schedule: RateSchedule) -> TraceReading | None:
    """Report that the optimizer of some process used another rate, although the metric shows the planned one."""
    for record in given.evidence.weights:
        used = {sync.step: sync.rate for sync in record.syncs if sync.step and sync.rate is not None}
        wrong = min((_wrong(given, used, rate, schedule, offset) for offset in (0, 1)), key=len)
        if record.role == TRAINED and wrong:
            expected = f"where the schedule gives {rate * schedule.factor(wrong[0]):g}"
            words = f"the optimizer of {record.source} stepped with {used[wrong[0]]:g} at {at_steps(wrong)}, {expected}"
            return TraceReading(TraceStatus.CONTRADICTED, words, wrong[0])
    return None


def _wrong(given: TraceInput, logged: dict[int, float], rate: float, schedule: RateSchedule, offset: int) -> list[int]:
    expected = {step: rate * schedule.factor(max(step - offset, 0)) for step in logged}
    return [step for step, value in logged.items() if not given.agree(value, expected[step])]
