"""rlx logs: show or follow the log of a run."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import typer

from rlx.cli.frame.options import RunsArgument, parse_age
from rlx.cli.frame.output import narrate, patiently, print_json, print_text
from rlx.errors import ExitCode, UsageError
from rlx.terminal_text import printable, printable_lines

if TYPE_CHECKING:
    from rlx.api.logs import Logs

_MOST_OTHERS = 5000


class LogValue(NamedTuple):
    """One value of a metrics line."""

    step: int
    metric: str
    value: float


def logs(
    names: RunsArgument = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until the runs end; Ctrl-C detaches.")
    ] = False,
    lines: Annotated[int | None, typer.Option("-n", "--tail", min=0, help="Only the last N lines.")] = None,
    grep: Annotated[str | None, typer.Option(help="Only lines that match this regular expression (grep -E).")] = None,
    fixed: Annotated[bool, typer.Option("--fixed-strings", "-F", help="--grep searches for literal text.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Whole lines also for metrics, as into a pipe.")] = False,
    since: Annotated[str | None, typer.Option(help="Only lines written in the last 30s, 10m, 2h, 1d.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object with the lines and the metrics.")] = False,
) -> None:
    """Show or follow the log of a run.

    Without RUN it means the runs of the latest launch. On a terminal, `rlx logs --grep val-core` shows the values of
    these metrics, by step and arm. Exit code 1 if --grep finds nothing. Control sequences of a log never reach the
    terminal, and following resumes after lost connections.
    """
    from rlx.api.logs import Logs
    from rlx.api.logs import logs as read_logs

    if as_json and follow:
        raise UsageError("--json is one object, and --follow has no end", "leave one of them out")
    since_s = parse_age(since) if since else None
    try:
        came = read_logs(
            names or None, follow=follow, lines=lines, grep=grep, fixed=fixed, since_s=since_s, tell=narrate
        )
        # The host may have answered already: a run that waits for devices has no line yet.
        came = Logs(came.runs, patiently(iter(came), "waiting for the log …"))
        found = _print(came, grep, fixed, follow, as_json, raw)
    except KeyboardInterrupt:
        if follow:
            narrate("\ndetached; the runs continue. Again: rlx logs -f · state: rlx status · end: rlx stop RUN")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if grep is not None and not found:
        narrate(f"no line matches {grep}")
        raise typer.Exit(ExitCode.ERROR)


def _print(run_logs: Logs, grep: str | None, fixed: bool, follow: bool, as_json: bool, raw: bool) -> bool:
    """Print the lines, or on a terminal the values in them. Return whether there was any line."""
    if as_json:
        answer = log_answer(run_logs)
        print_json(answer)
        return bool(answer["lines"])
    if grep is not None and not raw and sys.stdout.isatty():
        return print_values(run_logs, grep, fixed=fixed, at_once=follow)
    return print_lines(run_logs, grep, fixed=fixed, at_once=follow)


_Shown: TypeAlias = Callable[[bytes], list[str]]
"""What a terminal shows of a line, part by part."""


def print_lines(run_logs: Logs, pattern: str | None = None, *, fixed: bool = False, at_once: bool) -> bool:
    """Print each line whole, marked with its run where there are several. Return whether there was any.

    Matches of the pattern are highlighted on a terminal with colours.
    """
    marks, shown, any_line = _marks(run_logs), _highlighter(pattern, fixed), False
    for ref, line in run_logs:
        any_line = True
        _write(marks[ref.run_id], shown(line), at_once)
    return any_line


def print_values(run_logs: Logs, pattern: str, *, fixed: bool, at_once: bool) -> bool:
    """Print the values of the metrics whose names the pattern finds. Return whether there was any line.

    `at_once`: each value on a line as it comes, and other lines whole; else all values at the end, by metric and step.
    Other lines are then counted: trainers print their metrics in other forms, too. Without any value they are shown.
    """
    is_named, shown = _finder(pattern, fixed), _highlighter(pattern, fixed)
    if at_once:
        return _print_at_once(run_logs, is_named, shown)
    others: list[tuple[str, bytes]] = []
    series: dict[tuple[str, str], dict[int, float]] = {}
    for ref, line in run_logs:
        values = [each for each in line_values(line) if is_named(each.metric)]
        for each in values:
            series.setdefault((each.metric, ref.run_id), {})[each.step] = each.value
        if not values and len(others) < _MOST_OTHERS:
            others.append((ref.run_id, line))
    if series:
        _print_series(run_logs, series, len(others))
    else:
        _print_others(run_logs, others, shown)
    return bool(series or others)


def _print_at_once(run_logs: Logs, is_named: Callable[[str], object], shown: _Shown) -> bool:
    marks, any_line = _marks(run_logs), False
    for ref, line in run_logs:
        any_line = True
        values = [each for each in line_values(line) if is_named(each.metric)]
        _write(marks[ref.run_id], map(_value_line, values) if values else shown(line), at_once=True)
    return any_line


def _print_others(run_logs: Logs, lines: Sequence[tuple[str, bytes]], shown: _Shown) -> None:
    marks = _marks(run_logs)
    for run_id, line in lines:
        _write(marks[run_id], shown(line), at_once=False)
    if len(lines) == _MOST_OTHERS:
        narrate(f"the first {_MOST_OTHERS:,} lines; --raw shows all")


def log_answer(run_logs: Logs) -> dict[str, Any]:
    """Return the lines with their run, and the values of metrics in them, for --json."""
    lines = []
    for ref, line in run_logs:
        found: dict[int, dict[str, float]] = {}
        for each in line_values(line):
            found.setdefault(each.step, {})[each.metric] = each.value
        metrics = [{"step": step, "values": values} for step, values in found.items()]
        lines.append(
            {"run_id": ref.run_id, "arm": ref.arm, "text": "\n".join(printable_lines(line)), "metrics": metrics}
        )
    return {"runs": [ref.run_id for ref in run_logs.runs], "lines": lines}


def line_values(line: bytes) -> list[LogValue]:
    """Return the values of a line of any back-end; none if it has no metrics."""
    from rlx.evidence.reading.console import step_metrics

    return [LogValue(said.step, name, value) for said in step_metrics(line) for name, value in said.values.items()]


def _finder(pattern: str, fixed: bool) -> Callable[[str], object]:
    """Return a function that finds names, with the colon that follows in a line, as grep finds lines.

    A pattern that only grep understands finds none, so that whole lines are shown.
    """
    found = _compiled(pattern, fixed)
    return lambda name: found is not None and found.search(f"{name}:")


def _compiled(pattern: str, fixed: bool) -> re.Pattern[str] | None:
    """Compile a pattern of grep -E; return None if only grep understands it."""
    if not fixed and "[[" in pattern:
        return None
    try:
        return re.compile(re.escape(pattern) if fixed else pattern)
    except re.error:
        return None


def _highlighter(pattern: str | None, fixed: bool) -> _Shown:
    """Return a function that splits a line for the terminal, with matches in bold red if colours are shown."""
    from rlx.cli.frame.streams import shows_colour

    found = _compiled(pattern, fixed) if pattern and shows_colour(sys.stdout) else None
    if found is None:
        return printable_lines
    return lambda line: [found.sub(_red, part) for part in printable_lines(line)]


def _red(match: re.Match[str]) -> str:
    return f"\x1b[1;31m{match[0]}\x1b[0m" if match[0] else ""


def _marks(run_logs: Logs) -> Mapping[str, str]:
    from rlx.cli.text.run_text import run_labels

    return {
        run_id: f"{label} | " if len(run_logs.runs) > 1 else "" for run_id, label in run_labels(run_logs.runs).items()
    }


def _value_line(value: LogValue) -> str:
    from rlx.cli.text.series_text import value_text

    return printable(f"step {value.step}  {value_text(value.value)}  {value.metric}")


def _write(mark: str, parts: Iterable[str], at_once: bool) -> None:
    sys.stdout.write("".join(f"{mark}{part}\n" for part in parts))
    if at_once:
        sys.stdout.flush()


def _print_series(run_logs: Logs, series: Mapping[tuple[str, str], Mapping[int, float]], others: int) -> None:
    """Print the values by metric, and the runs of each in the order in which they were named."""
    from shutil import get_terminal_size

    from rlx.cli.text.run_text import run_labels
    from rlx.cli.text.series_text import Series, series_lines

    labels = run_labels(run_logs.runs)
    place = list(labels)
    order = sorted(series, key=lambda key: (key[0], place.index(key[1])))
    found = [Series(metric, labels[run_id], dict(sorted(series[metric, run_id].items()))) for metric, run_id in order]
    for line in series_lines(found, get_terminal_size().columns):
        print_text(line)
    more = f"{others:,}{'+' if others == _MOST_OTHERS else ''} other lines match" if others else "whole lines"
    narrate(f"raw log values · {more}: --raw · verdict: rlx status")
