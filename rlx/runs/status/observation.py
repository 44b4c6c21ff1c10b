"""The state of a run at one moment."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from rlx.errors import RlxError
from rlx.hosts.clock import Clock
from rlx.model import RunState
from rlx.runs.duration import duration, moment


@dataclass(frozen=True, slots=True)
class Observation:
    """The state of a run at one moment, and how it was determined.

    `exit_code` is a shell's (128 + signal). Times are by the clock of the run's host. `members` counts live processes
    of the run; `queued_behind` the runs that wait before it or have the devices now. `seconds_since_step`: since the
    metrics file was written, None where there is none; `seconds_since_end`: since the recorded end. `clock`: the host's
    clock against this machine's, None for this machine and for what was not queried just now. `detail` is a sentence
    for the user, empty if the state says everything; `is_apart`: it is about a node in another state than the head.

    If the host does not answer, `last_known` is the state at `last_seen_epoch` (None: never seen), and
    `unreachable_since` the first failed query, both by the clock of this machine; everything else is as it was then.
    """

    run_id: str
    state: RunState
    exit_code: int | None = None
    attempt: int = 1
    leader_live: bool = False
    supervisor_live: bool = False
    holder_live: bool = False
    members: int = 0
    log_bytes: int = 0
    seconds_since_log: float | None = None
    seconds_since_step: float | None = None
    seconds_since_start: float | None = None
    seconds_since_end: float | None = None
    started_epoch: float | None = None
    ended_epoch: float | None = None
    queued_behind: int = 0
    detail: str = ""
    is_apart: bool = False
    last_known: RunState | None = None
    last_seen_epoch: float | None = None
    unreachable_since: float | None = None
    clock: Clock | None = None


def unreachable(then: Observation, seen: float | None, failure: RlxError, since: float) -> Observation:
    """Return the run as it was `then`, now that its host does not answer.

    It was last `seen` (None: never), and the first failed query was at `since`, both by this machine's clock.
    """
    known = "never seen"
    if seen is not None:
        # The clock may have been set in between.
        seconds = time.time() - seen
        ago = f"{duration(seconds)} ago" if seconds >= 0 else "before this machine's clock was set back"
        known = f"last known: {then.state}, {ago}"
    # The first line of the error, without the host and the command, which are shown elsewhere.
    first = (failure.message.splitlines() or [""])[0].partition("; command: ")[0]
    return replace(
        then,
        state=RunState.UNREACHABLE,
        detail=f"unreachable since {moment(since)} ({first.partition(': ')[2] or first}); {known}",
        last_known=then.state if seen is not None else None,
        last_seen_epoch=seen,
        unreachable_since=since,
    )
