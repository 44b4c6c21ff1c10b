"""Wait until runs have ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rlx.api.runs import unheard
from rlx.errors import ExitCode, RlxError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlx.api.runs import Runs, Tell
    from rlx.runs import Index, RunRef
    from rlx.runs.status.snapshots import Snapshot

_POLL_SECONDS = 1.0


def wait(
    runs: Runs | None = None,
    *,
    timeout_s: float | None = None,
    tell: Tell = unheard,
    seen: Callable[[Sequence[Snapshot]], None] = lambda rows: None,
) -> list[Snapshot]:
    """Return the rows of `status` once all these runs have ended; without names, those of the latest launch.

    Blocks of a sweep move to hosts that are free meanwhile, and attempts are begun where a recipe asks for it. A host
    that does not answer is waited for. `timeout_s` is in seconds. `tell` receives what is waited for whenever that
    changes, `seen` receives the rows of each query. Raises RlxError (exit code 11) when the time is up, NoSuchRun.
    """
    from rlx.api.runs import open_index, runs_or_latest

    told = ""

    def show(rows: Sequence[Snapshot]) -> None:
        nonlocal told
        seen(rows)
        # Where its host does not answer, the state that a run was last known to be in.
        known = (f"{row.ref.run_id} {(row.observation.last_known or row.state).value}" for row in rows)
        if (states := ", ".join(known)) != told and not _have_ended(rows):
            tell(f"waiting: {states}")
            told = states

    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    index = open_index()
    return until_ended(index, runs_or_latest(index, runs), tell, show, deadline)


def until_ended(
    index: Index,
    refs: Sequence[RunRef],
    tell: Tell,
    seen: Callable[[Sequence[Snapshot]], None],
    deadline: float | None = None,
) -> list[Snapshot]:
    """Query these runs until they have ended; meanwhile move blocks of sweeps, and begin attempts of recipes.

    `tell` receives outages, moves and attempts, `seen` the rows of each query. Raises RlxError past the deadline.
    """
    from rlx.api.rebalancing import Rebalancing
    from rlx.api.retrying import RetryingByRecipe
    from rlx.api.runs import where_they_are
    from rlx.api.status import Outages
    from rlx.runs.status.judged_snapshots import judged_snapshots
    from rlx.runs.status.snapshots import HostBackoff

    backoff, outages = HostBackoff(index), Outages(tell)
    rebalancing, retrying = Rebalancing(index, tell), RetryingByRecipe(index, tell)
    while True:
        rows = judged_snapshots(index, refs, backoff)
        outages.tell([(row.ref, row.observation) for row in rows])
        seen(rows)
        if moved := rebalancing.run_once(rows) | retrying.run_once(rows):
            refs = where_they_are(index, refs)
        if not moved and _have_ended(rows):
            return rows
        if deadline is not None and time.monotonic() >= deadline:
            raise RlxError("the time is up and not every run has ended", "rlx status", ExitCode.NOT_FINISHED)
        time.sleep(_POLL_SECONDS)


def _have_ended(rows: Sequence[Snapshot]) -> bool:
    return all(row.state.is_terminal for row in rows)


def outcome(rows: Sequence[Snapshot]) -> ExitCode:
    """Return the exit code of runs that have ended: that of the worst of them."""
    from rlx.model import RunState

    states = {row.state for row in rows}
    if states & {RunState.FAILED, RunState.LOST}:
        return ExitCode.RUN_FAILED
    if RunState.STOPPED in states:
        return ExitCode.STOPPED
    if any(not row.verdict.is_result(ended=True) for row in rows):
        return ExitCode.NOT_VERIFIED
    return ExitCode.OK
