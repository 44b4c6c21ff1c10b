"""The one value of each run that answers a registered question: at the last step, of several, or of its whole curve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum
from statistics import fmean

from rlx.compare.align import Series, finite
from rlx.evidence import JudgedRun, series
from rlx.evidence.metrics import disputed, is_validation
from rlx.model import Registration
from rlx.model.post_metric import is_post
from rlx.model.registration import AREA, LAST


@dataclass(frozen=True, slots=True)
class PrimaryValue:
    """`value` is in the unit of the metric, and made of its values at `steps`.

    None where the run has no such value; `why_not` then says why, and `steps` are those that were looked for.
    """

    value: float | None
    steps: tuple[int, ...]
    why_not: str = ""


def primary_values(runs: Sequence[JudgedRun], asked: Registration) -> tuple[PrimaryValue, ...]:
    """Give each run, of all arms together, the value that `asked` registered; any metric of the log will do.

    The last step is that of the run's own plan, and of the mean of the last k validations each must be there: a run
    that ended early, or lost one, has no value. The area under the curve is that by the trapezoidal rule over the steps
    which all runs with a last step share, divided by their span: the mean height of the curve, in the metric's unit.
    """
    curves = [finite(series(run.evidence, asked.metric)) for run in runs]
    logged = sorted(set().union(*curves))
    lasts = [_last_step(run, asked, logged) for run in runs]
    grid = _shared([curve for curve, last in zip(curves, lasts, strict=True) if last in curve])
    return tuple(
        _value(run, curve, asked, _wanted(run, asked, logged, last, grid))
        for run, curve, last in zip(runs, curves, lasts, strict=True)
    )


def area_under(curve: Series, steps: Sequence[int]) -> float:
    """The mean height of the curve over two or more of its steps, ascending, by the trapezoidal rule."""
    areas = ((right - left) * (curve[left] + curve[right]) / 2 for left, right in pairwise(steps))
    return fsum(areas) / (steps[-1] - steps[0])


def _last_step(run: JudgedRun, asked: Registration, logged: Sequence[int]) -> int | None:
    """The step at which a curve ends by plan; of a run that was planned without an end, where the longest one ends."""
    planned = _planned_validations(run, asked.metric)
    if planned and asked.at != LAST:
        return planned[-1]
    return run.plan.expectations.total_steps or (logged[-1] if logged else None)


def _planned_validations(run: JudgedRun, metric: str) -> tuple[int, ...]:
    """The steps at which the plan measures the metric; empty for one of the training, which has its own pace."""
    return (
        tuple(sorted(run.plan.expectations.validation_steps)) if is_validation(metric) and not is_post(metric) else ()
    )


def _shared(curves: Sequence[Series]) -> tuple[int, ...]:
    return tuple(sorted(set.intersection(*map(set, curves)))) if curves else ()


def _wanted(
    run: JudgedRun, asked: Registration, logged: Sequence[int], last: int | None, grid: tuple[int, ...]
) -> tuple[int, ...]:
    """The steps that the value is made of. What is measured before the training counts in the whole curve alone."""
    if last is None:
        return ()
    if asked.at == LAST:
        return (last,)
    if asked.at == AREA:
        return tuple(dict.fromkeys([*grid, last]))
    steps = [step for step in _planned_validations(run, asked.metric) or logged if 0 < step <= last]
    return tuple(steps[-asked.validations :])


def _value(run: JudgedRun, curve: Series, asked: Registration, steps: tuple[int, ...]) -> PrimaryValue:
    if why_not := next(_reasons(run, curve, asked, steps), ""):
        return PrimaryValue(None, steps, why_not)
    value = area_under(curve, steps) if asked.at == AREA else fmean(curve[step] for step in steps)
    return PrimaryValue(value, steps)


def _reasons(run: JudgedRun, curve: Series, asked: Registration, steps: tuple[int, ...]) -> Iterator[str]:
    """Say what is missing for a value of the curve at these steps."""
    if not curve:
        yield f"no value of {asked.metric} in its log"
    for step in reversed(steps):
        if step not in curve:
            yield f"no value of {asked.metric} at step {step}; its last is at step {max(curve)}"
    needed = 2 if asked.at == AREA else asked.validations
    if len(steps) < needed:
        yield f"it needs {needed} validations, and there are {len(steps)}"
    for step, (one, other) in disputed(run.evidence, asked.metric).items():
        if step in steps:
            yield f"two values at step {step}: {one:.6g} and {other:.6g}"
