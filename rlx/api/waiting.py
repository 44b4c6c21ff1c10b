"""Wait until runs have ended, and say how."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rlx.api.telling import unheard
from rlx.errors import ExitCode, RlxError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlx.api.selection import Runs
    from rlx.api.telling import Tell
    from rlx.runs import Index, Observation, RunRef
    from rlx.runs.looking.overview import Overview

_POLL_SECONDS = 1.0


def wait(runs: Runs | None = None, *, timeout_s: float | None = None, tell: Tell = unheard) -> list[Overview]:
    """Return the rows of `status` once all these runs have ended; without names, those of the latest launch.

    A host that does not answer is waited for: what runs there goes on. `timeout_s` is in seconds. `tell` hears what
    is waited for whenever that changes. Raises RlxError (exit code 11) when the time is up, NoSuchRun for an unknown
    name.
    """
    from rlx.api.selection import open_index, runs_or_latest
    from rlx.runs.looking.overview import overview

    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    index = open_index()
    refs = runs_or_latest(index, runs)
    _await_ends(index, refs, deadline, tell)
    return overview(index, refs)


def _await_ends(index: Index, refs: Sequence[RunRef], deadline: float | None, tell: Tell) -> None:
    from rlx.api.outages import Outages
    from rlx.runs import look
    from rlx.runs.looking.revisit import Revisit

    told, visits, outages = "", Revisit(index), Outages(tell)
    while True:
        seen = {run_id: sight.observation for run_id, sight in look(index, refs, visits=visits).items()}
        outages.tell([(ref, seen[ref.run_id]) for ref in refs])
        if all(found.state.is_terminal for found in seen.values()):
            return
        if (states := _states(refs, seen)) != told:
            tell(f"waiting: {states}")
            told = states
        if deadline is not None and time.monotonic() >= deadline:
            raise RlxError("the time is up and not every run has ended", "rlx status", ExitCode.NOT_FINISHED)
        time.sleep(_POLL_SECONDS)


def _states(refs: Sequence[RunRef], seen: Mapping[str, Observation]) -> str:
    """Each run with its state; where its host does not answer, the one it was last known to be in."""
    found = {ref.run_id: seen[ref.run_id] for ref in refs}
    return ", ".join(f"{run_id} {(one.last_known or one.state).value}" for run_id, one in found.items())


def outcome(rows: Sequence[Overview]) -> ExitCode:
    """The exit code of runs that have ended: that of the worst of them."""
    from rlx.plan import RunState

    states = {row.state for row in rows}
    if states & {RunState.FAILED, RunState.LOST}:
        return ExitCode.RUN_FAILED
    if RunState.STOPPED in states:
        return ExitCode.STOPPED
    if any(not row.verdict.is_result(ended=True) for row in rows):
        return ExitCode.NOT_VERIFIED
    return ExitCode.OK
