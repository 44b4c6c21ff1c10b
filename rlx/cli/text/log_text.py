"""Show lines of logs: as they are, or the values that their metrics have."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from rlx.api.run_logs import Logs


_MOST_OTHERS = 5000
_Shown: TypeAlias = Callable[[bytes], list[str]]
"""What a terminal shows of a line, part by part."""


class LogValue(NamedTuple):
    """One value of a metrics line."""

    step: int
    metric: str
    value: float


def print_lines(came: Logs, pattern: str | None = None, *, fixed: bool = False, at_once: bool) -> bool:
    """Print each line whole, marked with its run where there are several. Returns whether there was any.

    What the pattern finds stands out where a terminal shows colours.
    """
    marks, shown, any_line = _marks(came), _highlighter(pattern, fixed), False
    for ref, line in came:
        any_line = True
        _write(marks[ref.run_id], shown(line), at_once)
    return any_line


def print_values(came: Logs, pattern: str, *, fixed: bool, at_once: bool) -> bool:
    """Print the values of the metrics whose names the pattern finds. Returns whether any line came.

    `at_once`: each value on a line as it comes, and other lines whole; else all values at the end, by metric and step.
    Other lines are then counted: trainers print their metrics in other forms, too. Without any value they are shown.
    """
    is_named, shown = _finder(pattern, fixed), _highlighter(pattern, fixed)
    if at_once:
        return _print_at_once(came, is_named, shown)
    others: list[tuple[str, bytes]] = []
    series: dict[tuple[str, str], dict[int, float]] = {}
    for ref, line in came:
        values = [each for each in line_values(line) if is_named(each.metric)]
        for each in values:
            series.setdefault((each.metric, ref.run_id), {})[each.step] = each.value
        if not values and len(others) < _MOST_OTHERS:
            others.append((ref.run_id, line))
    if series:
        _print_series(came, series, len(others))
    else:
        _print_others(came, others, shown)
    return bool(series or others)


def _print_at_once(came: Logs, is_named: Callable[[str], object], shown: _Shown) -> bool:
    marks, any_line = _marks(came), False
    for ref, line in came:
        any_line = True
        values = [each for each in line_values(line) if is_named(each.metric)]
        _write(marks[ref.run_id], map(_value_line, values) if values else shown(line), at_once=True)
    return any_line


def _print_others(came: Logs, lines: Sequence[tuple[str, bytes]], shown: _Shown) -> None:
    from rlx.cli.frame.output import narrate

    marks = _marks(came)
    for run_id, line in lines:
        _write(marks[run_id], shown(line), at_once=False)
    if len(lines) == _MOST_OTHERS:
        narrate(f"the first {_MOST_OTHERS:,} lines; --raw shows all")


def log_answer(came: Logs) -> dict[str, Any]:
    """The lines with their run, and the values of those that give metrics, for --json."""
    from rlx.terminal_text import printable_lines

    lines = []
    for ref, line in came:
        found: dict[int, dict[str, float]] = {}
        for each in line_values(line):
            found.setdefault(each.step, {})[each.metric] = each.value
        metrics = [{"step": step, "values": values} for step, values in found.items()]
        lines.append(
            {"run_id": ref.run_id, "arm": ref.arm, "text": "\n".join(printable_lines(line)), "metrics": metrics}
        )
    return {"runs": [ref.run_id for ref in came.runs], "lines": lines}


def line_values(line: bytes) -> list[LogValue]:
    """Read the values of a line of any back-end; none of a line that gives no metrics."""
    from rlx.evidence.reading.console import step_metrics

    return [LogValue(said.step, name, value) for said in step_metrics(line) for name, value in said.values.items()]


def _finder(pattern: str, fixed: bool) -> Callable[[str], object]:
    """Find names, with the colon that follows in a line, as grep finds lines.

    What only grep understands finds none, so that its lines are shown whole.
    """
    found = _compiled(pattern, fixed)
    return lambda name: found is not None and found.search(f"{name}:")


def _compiled(pattern: str, fixed: bool) -> re.Pattern[str] | None:
    """Read a pattern of grep -E; None for what only grep understands."""
    if not fixed and "[[" in pattern:
        return None
    try:
        return re.compile(re.escape(pattern) if fixed else pattern)
    except re.error:
        return None


def _highlighter(pattern: str | None, fixed: bool) -> _Shown:
    """Show the parts of a line; what the pattern finds in them in bold red, as grep does, where colours are shown."""
    from rlx.cli.frame.text_layout import shows_colour
    from rlx.terminal_text import printable_lines

    found = _compiled(pattern, fixed) if pattern and shows_colour(sys.stdout) else None
    if found is None:
        return printable_lines
    return lambda line: [found.sub(_red, part) for part in printable_lines(line)]


def _red(match: re.Match[str]) -> str:
    return f"\x1b[1;31m{match[0]}\x1b[0m" if match[0] else ""


def _marks(came: Logs) -> Mapping[str, str]:
    from rlx.cli.text.run_labels import run_labels

    return {run_id: f"{label} | " if len(came.runs) > 1 else "" for run_id, label in run_labels(came.runs).items()}


def _value_line(value: LogValue) -> str:
    from rlx.cli.text.series_text import value_text
    from rlx.terminal_text import printable

    return printable(f"step {value.step}  {value_text(value.value)}  {value.metric}")


def _write(mark: str, parts: Iterable[str], at_once: bool) -> None:
    sys.stdout.write("".join(f"{mark}{part}\n" for part in parts))
    if at_once:
        sys.stdout.flush()


def _print_series(came: Logs, series: Mapping[tuple[str, str], Mapping[int, float]], others: int) -> None:
    """Print the values by metric, the runs of each in the order of the choice."""
    from shutil import get_terminal_size

    from rlx.cli.frame.output import narrate, print_text
    from rlx.cli.text.run_labels import run_labels
    from rlx.cli.text.series_text import Series, series_lines

    labels = run_labels(came.runs)
    place = list(labels)
    order = sorted(series, key=lambda key: (key[0], place.index(key[1])))
    found = [Series(metric, labels[run_id], dict(sorted(series[metric, run_id].items()))) for metric, run_id in order]
    for line in series_lines(found, get_terminal_size().columns):
        print_text(line)
    more = f"{others:,}{'+' if others == _MOST_OTHERS else ''} other lines match" if others else "whole lines"
    narrate(f"raw log values · {more}: --raw · verdict: rlx status")
