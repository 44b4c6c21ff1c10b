"""A run at one moment, as its host or its log told it."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlx.errors import RlxError
from rlx.hosts.clock import Clock
from rlx.model import RunState
from rlx.runs.duration import duration, moment
from rlx.runs.run import RunRef
from rlx.runs.status.host_report import Life, Reports, RunFacts, container_detail, derive_state

if TYPE_CHECKING:
    from rlx.runs.index.run_index import Index
    from rlx.runs.index.tables import CachedState


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
    """Return the run as it was `then`, now that its host does not answer.

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
    """Return the first line of the error, without the host and the command, which are shown elsewhere."""
    first = (failure.message.splitlines() or [""])[0].partition("; command: ")[0]
    return first.partition(": ")[2] or first


def observe(index: Index, refs: Sequence[RunRef], reports: Reports) -> dict[str, Observation]:
    """Each run's observation by its id, by what its place has just reported or failed to.

    What was seen of a run before completes it where the place is silent or the run directory gone.
    """
    silent = reports.failures
    facts = {run_id: found for answer in reports.answers for run_id, found in answer.items()}
    unsure = [ref for ref in refs if not ref.place.is_local or ref.place in silent]
    known = index.cached_states([ref.run_id for ref in unsure]) if unsure else {}
    now = time.time()
    seen = {
        ref.run_id: _unanswered(ref.run_id, known.get(ref.run_id), silent[ref.place], now)
        if ref.place in silent and ref.run_id not in facts
        else _observation(ref.run_id, facts.get(ref.run_id), known.get(ref.run_id), now)
        for ref in refs
    }
    return seen | _on_their_way(index, seen)


def _on_their_way(index: Index, seen: Mapping[str, Observation]) -> dict[str, Observation]:
    """Those that no host has, because they are being moved from one to another: they wait."""
    lost = [run_id for run_id, found in seen.items() if found.state is RunState.LOST and found.started_epoch is None]
    moved = index.open_moves(lost) if lost else {}
    return {
        run_id: Observation(run_id, RunState.QUEUED, detail=f"on its way from {move.source} to {move.target}")
        for run_id, move in moved.items()
    }


def add_nodes(head: Observation, workers: Sequence[RunRef], seen: Mapping[str, Observation]) -> Observation:
    """Return the head's observation, with a remark on each worker that is in another state."""
    words = [_word_on(worker, seen[worker.run_id]) for worker in workers if _is_apart(head, seen[worker.run_id])]
    return replace(head, detail="; ".join(filter(None, (head.detail, *words))), is_apart=True) if words else head


def _is_apart(head: Observation, worker: Observation) -> bool:
    if head.state.is_terminal:
        return not worker.state.is_terminal
    # A worker has no steps by which it could be called running.
    return worker.state not in (RunState.STARTING, RunState.RUNNING, head.state)


def _word_on(worker: RunRef, seen: Observation) -> str:
    return f"node {worker.node} on {worker.host}: {seen.state}" + (f" ({seen.detail})" if seen.detail else "")


def _unanswered(run_id: str, known: CachedState | None, failure: RlxError, now: float) -> Observation:
    """Conclude from no answer, never `lost`. An end that was seen is a fact, whatever became of the host."""
    if known is None:
        return unreachable(Observation(run_id, RunState.UNREACHABLE), None, failure, now)
    # Lost is no end that anybody recorded: its folder may have been away, or its container.
    if known.observation.state.is_terminal and known.observation.state is not RunState.LOST:
        return _by_now(known, now)
    return unreachable(known.observation, known.seen, failure, known.silent_since or now)


def _by_now(known: CachedState, now: float) -> Observation:
    """Return a cached end with the time since then: by this machine's clock, before that by its host's."""
    seen = replace(known.observation, clock=None)
    if seen.seconds_since_end is None or known.seen is None:
        return seen
    return replace(seen, seconds_since_end=seen.seconds_since_end + max(0.0, now - known.seen))


def _observation(run_id: str, facts: RunFacts | None, known: CachedState | None, now: float) -> Observation:
    if facts is None:
        return _without_folder(run_id, known, now)
    state = derive_state(facts)
    return Observation(
        run_id=run_id,
        state=state,
        exit_code=facts.exit.code if facts.exit else None,
        attempt=facts.attempt,
        leader_live=facts.leader is Life.LIVE,
        supervisor_live=facts.supervisor is Life.LIVE,
        holder_live=facts.holder is Life.LIVE,
        members=facts.members,
        log_bytes=facts.log_bytes,
        seconds_since_log=_since(facts, facts.log_time),
        seconds_since_step=_since(facts, facts.metrics_time),
        seconds_since_start=_since(facts, facts.started),
        seconds_since_end=_since(facts, facts.exit.epoch) if facts.exit else None,
        started_epoch=facts.started,
        ended_epoch=facts.exit.epoch if facts.exit else None,
        queued_behind=facts.ahead if state is RunState.QUEUED else 0,
        detail=_detail(facts, state),
        clock=facts.clock,
    )


def _since(facts: RunFacts, then: float | None) -> float | None:
    return None if then is None else max(0.0, facts.now - then)


def _without_folder(run_id: str, known: CachedState | None, now: float) -> Observation:
    """Conclude for one removed, or on a disk that is not mounted. An end that was seen is a fact all the same."""
    if known is not None and known.observation.state.is_terminal:
        return replace(_by_now(known, now), detail="its run directory is gone")
    return Observation(run_id, RunState.LOST, detail="its run directory is gone")


def _detail(facts: RunFacts, state: RunState) -> str:
    if facts.exit is not None:
        return _detail_of_end(facts, facts.exit.code)
    if facts.job is not None and not facts.is_removed:
        started = facts.started is not None
        return facts.job.detail(state, started=started, stop_asked=facts.stop_asked)
    if facts.is_removed:
        return f"its run directory was removed, and {facts.members} of its processes run: rlx stop {facts.run_id}"
    if state is RunState.UNREACHABLE:
        return f"not known here: it was started on {facts.node}, which shares this folder; ask that host"
    if detail := container_detail(facts):
        return detail
    if state is RunState.LOST:
        return _detail_of_loss(facts)
    if state is RunState.QUEUED and facts.foreign:
        return f"waits for devices that processes outside rlx use (device:pid {facts.foreign})"
    if state is RunState.QUEUED:
        return f"behind {facts.ahead} run{'s' * (facts.ahead != 1)}" if facts.ahead else "next in line"
    if state in (RunState.STARTING, RunState.RUNNING) and facts.supervisor is Life.DEAD:
        return "its supervisor is gone"
    return ""


def _detail_of_end(facts: RunFacts, code: int) -> str:
    left = f"{facts.members} of its processes still run: rlx stop {facts.run_id}" if facts.members else ""
    cut = facts.job.cut_words(facts.cut) if code and facts.job else ""
    return "; ".join(part for part in (cut, _signal_name(code), left) if part)


def _signal_name(code: int) -> str:
    """Name the signal in an exit status: a shell reports a death by signal as 128 + its number."""
    try:
        return f"ended by {signal.Signals(code - 128).name}"
    except ValueError:
        return ""


def _detail_of_loss(facts: RunFacts) -> str:
    if facts.started is not None:
        return "its processes are gone and none recorded an end: killed, or the machine restarted"
    return "never started" if facts.holder is Life.NONE else "never started: its holder ended while it waited"
