"""Show lines of logs: as they are, or the values that their metrics have."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rlx.api.run_logs import Logs


_MOST_OTHERS = 5000


class LogValue(NamedTuple):
    """One value of a metrics line."""

    step: int
    metric: str
    value: float


def print_lines(came: Logs, *, at_once: bool) -> bool:
    """Print each line whole, marked with its run where there are several. Returns whether there was any."""
    from rlx.cli.text.terminal_text import printable_lines

    marks, any_line = _marks(came), False
    for ref, line in came:
        any_line = True
        _write(marks[ref.run_id], printable_lines(line), at_once)
    return any_line


def print_values(came: Logs, pattern: str, *, fixed: bool, at_once: bool) -> bool:
    """Print the values of the metrics whose names the pattern finds. Returns whether any line came.

    `at_once`: each value on a line as it comes, and other lines whole; else all values at the end, by metric and step.
    Other lines are then counted: trainers print their metrics in other forms, too. Without any value they are shown.
    """
    is_named = _finder(pattern, fixed)
    if at_once:
        return _print_at_once(came, is_named)
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
        _print_others(came, others)
    return bool(series or others)


def _print_at_once(came: Logs, is_named: Callable[[str], object]) -> bool:
    from rlx.cli.text.terminal_text import printable_lines

    marks, any_line = _marks(came), False
    for ref, line in came:
        any_line = True
        values = [each for each in line_values(line) if is_named(each.metric)]
        _write(marks[ref.run_id], map(_value_line, values) if values else printable_lines(line), at_once=True)
    return any_line


def _print_others(came: Logs, lines: Sequence[tuple[str, bytes]]) -> None:
    from rlx.cli.frame.output import narrate
    from rlx.cli.text.terminal_text import printable_lines

    marks = _marks(came)
    for run_id, line in lines:
        _write(marks[run_id], printable_lines(line), at_once=False)
    if len(lines) == _MOST_OTHERS:
        narrate(f"the first {_MOST_OTHERS:,} lines; --raw shows all")


def log_answer(came: Logs) -> dict[str, Any]:
    """The lines with their run, and the values of those that give metrics, for --json."""
    from rlx.cli.text.terminal_text import printable_lines

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
    if fixed:
        return lambda name: pattern in f"{name}:"
    try:
        found = re.compile("$^" if "[[" in pattern else pattern).search
    except re.error:
        return lambda name: False
    return lambda name: found(f"{name}:")


def _marks(came: Logs) -> Mapping[str, str]:
    from rlx.cli.text.run_labels import run_labels

    return {run_id: f"{label} | " if len(came.runs) > 1 else "" for run_id, label in run_labels(came.runs).items()}


def _value_line(value: LogValue) -> str:
    from rlx.cli.text.series_text import value_text
    from rlx.cli.text.terminal_text import printable

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
    narrate(f"as the logs say · {more}: --raw · what to believe: rlx status")
