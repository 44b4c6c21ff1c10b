"""The rows of a comparison that say how fast its arms were."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from rlx.compare.speed import speed_change

if TYPE_CHECKING:
    from rlx.compare import ComparedArm, ComparedRun


def pace_rows(arms: Sequence[ComparedArm]) -> Iterator[tuple[str, list[str], list[str]]]:
    """(name, a text for each arm, the change of each treatment against the control), without rows nobody logged.

    An arm of several runs has their mean. A change is stated from three runs an arm on.
    """
    for name, value_of, shown in _ROWS:
        values = [[value_of(run) for run in arm.runs] for arm in arms]
        means = [*map(_mean, values)]
        if any(mean is not None for mean in means):
            texts = ["" if mean is None else shown(mean) for mean in means]
            yield name, texts, [_change(values[0], treatment) for treatment in values[1:]]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def _change(control: Sequence[float | None], treatment: Sequence[float | None]) -> str:
    """`+57 % (-12 to +180)`, with the 95 % interval; "" where nothing may be said."""
    found = speed_change(control, treatment)
    if found is None:
        return ""
    return f"{100 * found.change:+.0f} % ({100 * found.low:+.0f} to {100 * found.high:+.0f})"


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
