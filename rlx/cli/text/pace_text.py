"""The rows of a comparison that say how fast its arms were."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.compare import ComparedArm, ComparedRun


def pace_rows(arms: Sequence[ComparedArm]) -> Iterator[tuple[str, list[str], list[str]]]:
    """(name, a text for each arm, the change of each treatment against the control), without rows nobody logged.

    An arm of several runs has their mean.
    """
    for name, value_of, shown in _ROWS:
        values = [_mean([value_of(run) for run in arm.runs]) for arm in arms]
        if any(value is not None for value in values):
            texts = ["" if value is None else shown(value) for value in values]
            yield name, texts, [_change(values[0], value) for value in values[1:]]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def _change(control: float | None, value: float | None) -> str:
    return f"{100 * (value / control - 1):+.0f} %" if control and value is not None else ""


def _duration(seconds: float) -> str:
    """`43 s`, `12 min`, `5 h 07 min`."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


_Row = tuple[str, Callable[["ComparedRun"], float | None], Callable[[float], str]]
_ROWS: tuple[_Row, ...] = (
    ("s/step", lambda run: run.seconds_per_step, "{:.3g}".format),
    ("tokens/s", lambda run: run.tokens_per_second, lambda value: f"{value:.0f}" if value >= 100 else f"{value:.3g}"),
    ("all steps", lambda run: run.training_seconds, _duration),
)
