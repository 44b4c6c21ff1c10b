"""Series of validation values side by side. Values meet by training step, never by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Series = Mapping[int, float]
BEYOND = 1e100


@dataclass(frozen=True, slots=True)
class StepValue:
    """One validation: the training step it followed (0 = before training) and its value."""

    step: int
    value: float


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step with the value of each run in the order given; None where that run was not validated there."""

    step: int
    values: tuple[float | None, ...]


def finite(series: Series) -> dict[int, float]:
    """Return the series in order of step, without values that are not finite (nan, inf).

    Values beyond every scale are left out, too: the difference of two of them is not a number.
    """
    return {step: value for step, value in sorted(series.items()) if abs(value) < BEYOND}


def align(runs: Sequence[Series]) -> tuple[StepRow, ...]:
    """Return one row for each step at which any run was validated."""
    steps = sorted({step for series in runs for step in series})
    return tuple(StepRow(step, tuple(series.get(step) for series in runs)) for step in steps)


def last_common_step(control: Series, treatment: Series) -> int | None:
    """Return the last step at which both runs were validated; None where there is none."""
    return max(control.keys() & treatment.keys(), default=None)


def peak(series: Series) -> StepValue | None:
    """Return the best value and the first step that has it. Descriptive only: a peak is selected on the test set
    itself.
    """
    if not series:
        return None
    step = max(series, key=lambda step: (series[step], -step))
    return StepValue(step, series[step])


def final(series: Series) -> StepValue | None:
    """Return the value at the last validated step."""
    return StepValue(max(series), series[max(series)]) if series else None
