"""The rows of a comparison that say how fast its arms were."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from rlx.compare.speed import blocks, speed_change

if TYPE_CHECKING:
    from rlx.compare import ComparedArm, ComparedRun


def pace_rows(arms: Sequence[ComparedArm]) -> Iterator[tuple[str, list[str], list[str]]]:
    """(name, a text for each arm, the change of each treatment against the control), without rows nobody logged.

    An arm of several runs has their mean. A change is stated from three blocks on. The load of the hosts stands
    beside the times: who has one run an arm sees what else they may tell of.
    """
    control, *treatments = arms
    in_blocks = [blocks(control, arm) for arm in treatments]
    for name, value_of, shown in _ROWS:
        means = [_mean(arm, value_of) for arm in arms]
        if any(mean is not None for mean in means):
            texts = ["" if mean is None else shown(mean) for mean in means]
            yield name, texts, [_change(pairs, value_of) for pairs in in_blocks]
    loads = [_load(arm) for arm in arms]
    if any(loads):
        yield "load before", loads, ["" for _ in arms[1:]]


def _load(arm: ComparedArm) -> str:
    """`0.4 to 2.1 of 16`: what the hosts of its runs were busy with before them, of how many processors."""
    known = [run.load for run in arm.runs if run.load is not None]
    if not known:
        return ""
    low, high = (pick(each.minute for each in known) for pick in (min, max))
    of = " and ".join(map(str, sorted({each.processors for each in known})))
    return f"{low:.2g} of {of}" if f"{low:.2g}" == f"{high:.2g}" else f"{low:.2g} to {high:.2g} of {of}"


def _mean(arm: ComparedArm, value_of: _Value) -> float | None:
    known = [value for run in arm.runs if (value := value_of(run)) is not None]
    return fmean(known) if len(known) == len(arm.runs) else None


def _change(pairs: Sequence[tuple[ComparedRun, ComparedRun]], value_of: _Value) -> str:
    """`+57 % (-12 to +180)`, with the 95 % interval; "" where nothing may be said."""
    found = speed_change([(value_of(control), value_of(treatment)) for control, treatment in pairs])
    if found is None:
        return ""
    return f"{100 * found.change:+.0f} % ({100 * found.low:+.0f} to {100 * found.high:+.0f})"


def _duration(seconds: float) -> str:
    """`43 s`, `12 min`, `5 h 07 min`."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


_Value = Callable[["ComparedRun"], float | None]
_Row = tuple[str, _Value, Callable[[float], str]]
_ROWS: tuple[_Row, ...] = (
    ("s/step", lambda run: run.seconds_per_step, "{:.3g}".format),
    ("tokens/s", lambda run: run.tokens_per_second, lambda value: f"{value:.0f}" if value >= 100 else f"{value:.3g}"),
    ("all steps", lambda run: run.training_seconds, _duration),
)
