"""Values of metrics by step: a table for each metric, and below it a line with bars for each run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

from rlx.cli.frame.streams import writes_utf8
from rlx.cli.text.table_text import plain_table_lines
from rlx.table import Column, Table, marked

_MOST_TABLES = 3
_MOST_BARS = 40
_BESIDE_BARS = 44
_BARS, _PLAIN_BARS = "▁▂▃▄▅▆▇█", "_.-=+*%#"
_NO_BAR = " "


class Series(NamedTuple):
    """The values of one metric of one run by step, ascending. `exclusion`: the word that excludes them, or ""."""

    metric: str
    label: str
    values: Mapping[int, float]
    exclusion: str = ""


def series_lines(series: Sequence[Series], width: int, *, rows: bool = True) -> Iterator[str]:
    """Show few metrics value by value, many as one line for each run; `width`: cells of the terminal.

    Without `rows`, the lines alone, and metrics that never change only by name and value at the end.
    """
    by_metric: dict[str, list[Series]] = {}
    for each in _padded(series):
        by_metric.setdefault(each.metric, []).append(each)
    still = {} if rows else {metric: value for metric, runs in by_metric.items() if (value := _only_value(runs))}
    whole = rows and len(by_metric) <= _MOST_TABLES
    for metric, runs in by_metric.items():
        if metric in still:
            continue
        yield metric
        if whole:
            yield from _rows(runs)
        yield from _summaries(runs, width)
        if whole:
            yield ""
    if still:
        yield "the same at every step"
        yield from (f"  {metric}  {value}" for metric, value in still.items())


def _padded(series: Sequence[Series]) -> list[Series]:
    """Give all labels one width, so that the tables of several metrics have the same columns."""
    from rich.cells import cell_len, set_cell_size

    width = max((cell_len(each.label) for each in series), default=0)
    return [each._replace(label=set_cell_size(each.label, width)) for each in series]


def _only_value(runs: Sequence[Series]) -> str:
    """Return the value that every run has at every step, or "". An excluded value differs from others."""
    values = {marked(value_text(value), run.exclusion) for run in runs for value in run.values.values()}
    return values.pop() if len(values) == 1 and all(len(run.values) > 1 for run in runs) else ""


def value_text(value: float) -> str:
    return f"{value:.6g}"


def _rows(runs: Sequence[Series]) -> Iterator[str]:
    """Yield a line for each value, with its mark behind it."""
    points = sorted((step, place) for place, run in enumerate(runs) for step in run.values)
    columns = [
        Column("step", [str(step) for step, _ in points], right=True),
        Column("arm", [runs[place].label for _, place in points]),
        Column("value", [value_text(runs[place].values[step]) for step, place in points], right=True),
    ]
    heading, *lines = plain_table_lines(Table(columns), indent=2)
    yield heading
    yield from (marked(line, runs[place].exclusion) for line, (_, place) in zip(lines, points, strict=True))


def _summaries(runs: Sequence[Series], width: int) -> Iterator[str]:
    """Yield a line per run, all on one scale, since on its own scale noise would look as large as an effect."""
    from rich.cells import cell_len

    finite = [value for run in runs for value in run.values.values() if isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    most = min(_MOST_BARS, max(8, width - cell_len(runs[0].label) - _BESIDE_BARS))
    for run in runs:
        yield _summary(run, sparkline(list(run.values.values()), most, low, high))


def _summary(run: Series, bars: str) -> str:
    first, *rest = (value_text(value) for value in run.values.values())
    reach = f"{first} → {rest[-1]}" if rest else first
    return marked(f"  {run.label}  {bars}  {reach}", run.exclusion)


def sparkline(values: Sequence[float], width: int, low: float, high: float) -> str:
    """Draw at most `width` bars, from `low` to `high`, between which all values are; a bar is the mean of its values.

    Values that are not finite leave a gap. A stream that is not UTF-8 gets bars of ASCII.
    """
    bars = _BARS if writes_utf8() else _PLAIN_BARS
    scale = (len(bars) - 1) / (high - low) if high > low else 0.0
    means = _means(values, max(1, width))
    return "".join(_NO_BAR if mean is None else bars[round((mean - low) * scale)] for mean in means)


def _means(values: Sequence[float], width: int) -> list[float | None]:
    parts = min(width, len(values))
    return [_mean(values[place * len(values) // parts : (place + 1) * len(values) // parts]) for place in range(parts)]


def _mean(values: Sequence[float]) -> float | None:
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else None
