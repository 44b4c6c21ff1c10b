"""A run at one moment, as its host or its log told it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from rlx.errors import RlxError
from rlx.hosts.clock import Clock
from rlx.model import RunState
from rlx.runs.duration import duration, moment


@dataclass(frozen=True, slots=True)
class Observation:
    """A run at one moment. `exit_code` is a shell's (128 + signal); times are by the clock of the run's host.

    `members` counts live processes of the run; `queued_behind` the runs that wait before it or have the devices now.
    `seconds_since_step`: since the metrics file was written, None where there is none; `seconds_since_end`: since the
    recorded end. `clock`: the host's against this machine's, None for this machine and for what was not just asked.
    `detail` is a sentence for the person, empty when the state says it all; `is_apart`: it tells of a node that is not
    where the head of the run is. Of a run whose host does not answer,
    `last_known` is the state at `last_seen_epoch` (None: never seen), and `unreachable_since` the first look in vain,
    both by the clock of this machine; everything else is as it was then.
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
    """The run as it was `then`, now that its host does not answer.

    It was `seen` the last time, None if never; the first look in vain was at `since`, both by this machine's clock.
    """
    now = time.time()
    last_known = then.state if seen is not None else None
    known = f"last known: {last_known}, {_ago(now - seen)}" if seen is not None else "never seen"
    return replace(
        then,
        state=RunState.UNREACHABLE,
        detail=f"unreachable since {moment(since)} ({_reason(failure)}); {known}",
        last_known=last_known,
        last_seen_epoch=seen,
        unreachable_since=since,
    )


def _ago(seconds: float) -> str:
    """Measure between two moments of this machine's clock, which may have been set in between."""
    return f"{duration(seconds)} ago" if seconds >= 0 else "before this machine's clock was set back"


def _reason(failure: RlxError) -> str:
    """The first line of the complaint; the host it begins with and the command at its end are told elsewhere."""
    first = (failure.message.splitlines() or [""])[0].partition("; command: ")[0]
    return first.partition(": ")[2] or first
