"""Progress of runs on stderr: a line per change, a sign that waiting goes on, and what to type next."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from rlx.cli.frame.output import is_quiet, narrate
from rlx.errors import ExitCode
from rlx.model import RunState, message_text
from rlx.table import marked

if TYPE_CHECKING:
    from rlx.runs import RunRef
    from rlx.runs.status.snapshots import Snapshot

_QUIET_SECONDS = 15.0
_MOST_NAMED = 4


def follow_runs(refs: Sequence[RunRef]) -> None:
    """Print the progress of these runs until they have ended. Ctrl-C detaches and ends nothing.

    Exit with the code of `rlx wait` unless every run finished and nothing contradicts it.
    """
    from rlx.api.notifying import notified
    from rlx.api.runs import open_index
    from rlx.api.waiting import outcome, until_ended

    try:
        with notified(narrate) as notifier, progress_ticker() as alive:
            rows = until_ended(open_index(), refs, narrate, each_of(_narrator(), alive, notifier.see))
    except KeyboardInterrupt:
        narrate("\ndetached; the runs continue. Again: rlx status -w · logs: rlx logs -f · end: rlx stop RUN")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    hint_at_diagnosis(rows)
    if code := outcome(rows):
        raise typer.Exit(code)


def _narrator() -> Callable[[Sequence[Snapshot]], None]:
    """Return a function that prints what changed since it was last called, with the local time."""
    from rlx.runs.duration import time_zone

    seen: dict[str, Snapshot] = {}

    def narrate_changes(rows: Sequence[Snapshot]) -> None:
        if not seen:
            narrate(f"times in {time_zone()}")
        for row in rows:
            for line in changes(seen.get(row.ref.run_id), row):
                narrate(f"{time.strftime('%H:%M:%S')}  {line}")
        seen.update({row.ref.run_id: row for row in rows})

    return narrate_changes


def changes(before: Snapshot | None, row: Snapshot) -> list[str]:
    """Return what changed of a run between two queries: its state, new steps with their values, its verdict."""
    lines = []
    state = row.state
    # That a host does not answer is printed elsewhere, once for all its runs.
    if state is not RunState.UNREACHABLE and (before is None or before.state is not state):
        queued = state is RunState.QUEUED
        lines.append(_line(row, f"queued, {row.observation.detail}" if queued else state.value))
    lines += [_line(row, text) for text in _new_steps(before, row)]
    if state.is_terminal and (before is None or not before.state.is_terminal):
        # The steps come first, the end last.
        lines = [*lines[1:], lines[0], _line(row, row.verdict.sentence)]
        lines += [
            _line(row, f"{finding.severity} {finding.id} {message_text(finding)}") for finding in row.verdict.findings
        ]
    return lines


def _new_steps(before: Snapshot | None, row: Snapshot) -> list[str]:
    known = before.evidence.metrics if before else {}
    metrics = row.evidence.metrics
    return [_step_text(row, step) for step in sorted(metrics) if metrics[step] and not known.get(step)]


def _step_text(row: Snapshot, step: int) -> str:
    from rlx.evidence.log_grammar import Role
    from rlx.evidence.metrics import metric_of

    exclusion = row.verdict.exclusion(ended=row.state.is_terminal)
    values = row.evidence.metrics[step]
    parts = [f"step {step}/{row.steps_total if row.steps_total is not None else '?'}"]
    if (score := values.get(metric_of(row.evidence, Role.SCORE))) is not None:
        parts.append(marked(f"training score {score:.3f}", exclusion))
    if row.metric and row.metric in values:
        parts.append(marked(f"{row.metric} {values[row.metric]:.4f}", exclusion))
    if (seconds := values.get(metric_of(row.evidence, Role.STEP_SECONDS))) is not None:
        parts.append(f"{seconds:.1f} s")
    return "  ".join(parts)


def _line(row: Snapshot, text: str) -> str:
    return f"{row.ref.arm:<10} {text}"


def each_of(*receivers: Callable[[Sequence[Snapshot]], None]) -> Callable[[Sequence[Snapshot]], None]:
    """Return a function that passes the rows of each query to all of these."""

    def receive(rows: Sequence[Snapshot]) -> None:
        for receiver in receivers:
            receiver(rows)

    return receive


@contextmanager
def progress_ticker() -> Iterator[Callable[[Sequence[Snapshot]], None]]:
    """Yield a function for the rows of each query: it updates a line on a terminal, and prints one rarely elsewhere.

    Training frameworks are silent for a minute at a time.
    """
    from rich.console import Console

    if sys.stderr.isatty() and not is_quiet():
        with Console(stderr=True, highlight=False).status("") as spinner:
            yield lambda rows: spinner.update(" · ".join(_waiting(rows)), spinner_style="dim")
        return
    printed = time.monotonic()

    def print_rarely(rows: Sequence[Snapshot]) -> None:
        nonlocal printed
        if time.monotonic() - printed > _QUIET_SECONDS:
            printed = time.monotonic()
            for line in _waiting(rows):
                narrate(f"{time.strftime('%H:%M:%S')}  {line}")

    yield print_rarely


def _waiting(rows: Sequence[Snapshot]) -> list[str]:
    return [_waiting_line(row) for row in rows if not row.state.is_terminal]


def _waiting_line(row: Snapshot) -> str:
    from rlx.runs.duration import duration

    seen = row.observation
    if seen.state in (RunState.QUEUED, RunState.UNREACHABLE):
        return f"{row.ref.arm:<10} {f'queued, {seen.detail}' if seen.state is RunState.QUEUED else seen.detail}"
    text = f"{seen.state.value}; {seen.members} processes, log {seen.log_bytes} bytes"
    if row.steps_done:
        text = f"{seen.state.value}, step {row.steps_done}/{row.steps_total if row.steps_total is not None else '?'}"
        text += f", about {duration(row.seconds_left)} left" if row.seconds_left is not None else ""
    if seen.seconds_since_log is not None:
        text += f", last written {seen.seconds_since_log:.0f} s ago"
    return f"{row.ref.arm:<10} {text}"


def hint_at_diagnosis(rows: Sequence[Snapshot]) -> None:
    """Print how to diagnose runs that failed, were lost or hang."""
    unwell = {RunState.FAILED, RunState.LOST, RunState.STALLED}
    names = [row.ref.run_id for row in rows if row.state in unwell]
    if names:
        narrate(f"why: rlx diagnose {' '.join(names[:_MOST_NAMED])}")
