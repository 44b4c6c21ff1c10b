"""rlx wait: block until runs have ended, and tell by the exit code how."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.errors import ExitCode

if TYPE_CHECKING:
    from rlx.runs import Index, RunRef
    from rlx.runs.looking.overview import Overview

_POLL_SECONDS = 1.0


def wait(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="Arm, run name or id. Default: the latest launch.")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(help="Give up after this long (30s, 10m, 2h); exit code 11 then.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")] = False,
) -> None:
    """Wait until the runs have ended.

    Exit code: 0 all finished and nothing contradicts them · 10 one failed or was lost · 13 one was stopped ·
    14 one finished but its verdict is invalid or incomplete · 11 the time was up.
    """
    from rlx.api.selection import open_index, runs_or_latest
    from rlx.cli.frame.output import print_json, print_text
    from rlx.cli.logs import parse_age
    from rlx.cli.status import row_document
    from rlx.cli.text.next_step import hint_at_diagnosis
    from rlx.runs.looking.overview import overview

    deadline = time.monotonic() + parse_age(timeout) if timeout else None
    index = open_index()
    refs = runs_or_latest(index, names)
    _await_ends(index, refs, deadline)
    rows = overview(index, refs)
    if as_json:
        print_json({"runs": [row_document(row) for row in rows]})
    else:
        for row in rows:
            print_text(f"{row.ref.run_id}  {row.state.value}  {row.verdict.sentence}")
        hint_at_diagnosis(rows)
    raise typer.Exit(outcome(rows))


def _await_ends(index: Index, refs: Sequence[RunRef], deadline: float | None) -> None:
    """Says on stderr what it waits for, again whenever that changes. Exits with 11 at the deadline (monotonic).

    A host that does not answer is waited for: what runs there goes on.
    """
    from rlx.cli.frame.output import narrate
    from rlx.cli.text.outages import Outages, state_text
    from rlx.runs import look
    from rlx.runs.looking.revisit import Revisit

    told, visits, outages = "", Revisit(index), Outages()
    while True:
        seen = {run_id: sight.observation for run_id, sight in look(index, refs, visits=visits).items()}
        outages.tell([(ref, seen[ref.run_id]) for ref in refs])
        if all(found.state.is_terminal for found in seen.values()):
            return
        states = ", ".join(f"{ref.run_id} {state_text(seen[ref.run_id])}" for ref in refs)
        if states != told:
            narrate(f"waiting: {states}")
            told = states
        if deadline is not None and time.monotonic() >= deadline:
            narrate("rlx: the time is up and not every run has ended: rlx status")
            raise typer.Exit(ExitCode.NOT_FINISHED)
        time.sleep(_POLL_SECONDS)


def outcome(rows: Sequence[Overview]) -> ExitCode:
    """The exit code of ended runs: the worst of them."""
    from rlx.evidence import VerdictStatus
    from rlx.plan import RunState

    states = {row.state for row in rows}
    if states & {RunState.FAILED, RunState.LOST}:
        return ExitCode.RUN_FAILED
    if RunState.STOPPED in states:
        return ExitCode.STOPPED
    if any(row.verdict.status in (VerdictStatus.INVALID, VerdictStatus.INCOMPLETE) for row in rows):
        return ExitCode.NOT_VERIFIED
    return ExitCode.OK
