"""Following a launch: one line for what changed, until every run has ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import typer

from rlx.errors import ExitCode
from rlx.model import RunState

if TYPE_CHECKING:
    from rlx.runs import RunRef
    from rlx.runs.looking.overview import Overview


def follow_runs(refs: Sequence[RunRef]) -> None:
    """Narrate these runs on stderr until they have ended. Ctrl-C detaches and ends nothing.

    Exits with the code of `rlx wait` unless every run finished and nothing contradicts it.
    """
    from rlx.api.notifying import notified
    from rlx.api.selection import open_index
    from rlx.api.waiting import outcome, until_ended
    from rlx.cli.frame.output import narrate
    from rlx.cli.frame.sign_of_life import each_of, sign_of_life
    from rlx.cli.text.next_step import hint_at_diagnosis

    try:
        with notified(narrate) as notifier, sign_of_life() as alive:
            rows = until_ended(open_index(), refs, narrate, each_of(_narrator(), alive, notifier.see))
    except KeyboardInterrupt:
        narrate("\ndetached; the runs go on. Again: rlx status -w · logs: rlx logs -f · end: rlx stop RUN")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    hint_at_diagnosis(rows)
    if code := outcome(rows):
        raise typer.Exit(code)


def _narrator() -> Callable[[Sequence[Overview]], None]:
    """Narrate what changed between two queries."""
    from rlx.cli.frame.output import narrate

    seen: dict[str, Overview] = {}

    def narrate_changes(rows: Sequence[Overview]) -> None:
        for row in rows:
            for line in changes(seen.get(row.ref.run_id), row):
                narrate(f"{time.strftime('%H:%M:%S')}  {line}")
        seen.update({row.ref.run_id: row for row in rows})

    return narrate_changes


def changes(before: Overview | None, row: Overview) -> list[str]:
    """Word what is new about a run since the last look: a new state, new steps with their validations, the verdict."""
    lines = []
    state = row.state
    # That a host does not answer is told once for all its runs, elsewhere.
    if state is not RunState.UNREACHABLE and (before is None or before.state is not state):
        queued = state is RunState.QUEUED
        lines.append(_line(row, f"queued, {row.observation.detail}" if queued else state.value))
    lines += [_line(row, text) for text in _new_steps(before, row)]
    if state.is_terminal and (before is None or not before.state.is_terminal):
        # The steps come first, the end last.
        lines = [*lines[1:], lines[0], _line(row, row.verdict.sentence)]
        lines += [_line(row, f"{finding.id} {finding.message}") for finding in row.verdict.findings]
    return lines


def _new_steps(before: Overview | None, row: Overview) -> list[str]:
    known = before.evidence.metrics if before else {}
    metrics = row.evidence.metrics
    return [_step_text(row, step) for step in sorted(metrics) if metrics[step] and not known.get(step)]


def _step_text(row: Overview, step: int) -> str:
    from rlx.evidence.log_grammar import Role
    from rlx.evidence.metrics import metric_of
    from rlx.table import marked

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


def _line(row: Overview, text: str) -> str:
    return f"{row.ref.arm:<10} {text}"
