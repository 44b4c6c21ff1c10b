"""Looks at runs: one round trip a place, for all its runs. Writes nothing there."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlx.errors import RlxError
from rlx.plan import RunState
from rlx.runs.adopted.log_source import is_adopted
from rlx.runs.duration import duration, moment
from rlx.runs.looking.fan_out import Asked
from rlx.runs.looking.state import Facts, Life, container_detail, derive_state
from rlx.runs.looking.state_report import Looked, look
from rlx.runs.run import RunRef

if TYPE_CHECKING:
    from rlx.runs.index.run_index import Index
    from rlx.runs.index.sightings import Sighting

Looking = Callable[[Sequence[RunRef]], Looked]


@dataclass(frozen=True, slots=True)
class Observation:
    """A run at one moment. `exit_code` is a shell's (128 + signal); times are by the clock of the run's host.

    `members` counts live processes of the run; `queued_behind` the runs that wait before it or have the devices now.
    `seconds_since_step`: since the metrics file was written, None where there is none.
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
    started_epoch: float | None = None
    ended_epoch: float | None = None
    queued_behind: int = 0
    detail: str = ""
    is_apart: bool = False
    last_known: RunState | None = None
    last_seen_epoch: float | None = None
    unreachable_since: float | None = None


def observe(index: Index, refs: Sequence[RunRef], looking: Looking = look) -> Mapping[str, Observation]:
    """Each run's observation by its id, in the order of `refs`. A place that does not answer raises nothing.

    `looking` asks the places of the runs that rlx started itself; adopted ones are asked meanwhile.
    """
    adopted = [ref for ref in refs if is_adopted(ref)]
    if not adopted:
        return _observed_with_workers(index, refs, looking)
    from rlx.runs.adopted.adopted_state import observe_adopted

    own = own_runs(refs)
    with ThreadPoolExecutor(1) as pool:
        seen_own = pool.submit(lambda: _observed_with_workers(index, own, looking))
        seen = {**observe_adopted(adopted), **seen_own.result()}
    return {ref.run_id: seen[ref.run_id] for ref in refs}


def unasked(index: Index, refs: Sequence[RunRef], failure: RlxError) -> Mapping[str, Observation]:
    """Conclude what is known of these runs, by id, where their host has just failed to answer; nobody is asked."""
    from rlx.runs.adopted.adopted_state import unasked_adopted

    adopted, own = [ref for ref in refs if is_adopted(ref)], own_runs(refs)
    return {
        **unasked_adopted(adopted, failure),
        **_observed(index, own, Asked((), {ref.place: failure for ref in own})),
    }


def own_runs(refs: Iterable[RunRef]) -> list[RunRef]:
    """Choose those that rlx started itself."""
    return [ref for ref in refs if not is_adopted(ref)]


def _observed_with_workers(index: Index, refs: Sequence[RunRef], looking: Looking) -> Mapping[str, Observation]:
    """Add to the detail of a run what is not as it should be on its other nodes."""
    workers = index.workers(refs)
    everything = [*refs, *(worker for worker in workers if worker not in refs)]
    seen = _observed(index, everything, looking(everything))
    return {ref.run_id: with_nodes(seen[ref.run_id], _of(ref, workers), seen) for ref in refs}


def _of(head: RunRef, workers: Sequence[RunRef]) -> list[RunRef]:
    return [worker for worker in workers if worker.head_id == head.run_id]


def with_nodes(head: Observation, workers: Sequence[RunRef], seen: Mapping[str, Observation]) -> Observation:
    """The head's observation, with a word on each of its workers that is not in the state that the head is in."""
    words = [_word_on(worker, seen[worker.run_id]) for worker in workers if _is_apart(head, seen[worker.run_id])]
    return replace(head, detail="; ".join(filter(None, (head.detail, *words))), is_apart=True) if words else head


def _is_apart(head: Observation, worker: Observation) -> bool:
    if head.state.is_terminal:
        return not worker.state.is_terminal
    # A worker has no steps by which it could be called running.
    return worker.state not in (RunState.STARTING, RunState.RUNNING, head.state)


def _word_on(worker: RunRef, seen: Observation) -> str:
    return f"node {worker.node} on {worker.host}: {seen.state}" + (f" ({seen.detail})" if seen.detail else "")


def _observed(index: Index, refs: Sequence[RunRef], looked: Looked) -> Mapping[str, Observation]:
    """Of runs that rlx started itself."""
    silent = looked.failures
    facts = {run_id: found for answer in looked.answers for run_id, found in answer.items()}
    distant = [ref for ref in refs if not ref.place.is_local or ref.place in silent]
    known = index.sightings([ref.run_id for ref in distant]) if distant else {}
    now = time.time()
    seen = {
        ref.run_id: _unanswered(ref.run_id, known.get(ref.run_id), silent[ref.place], now)
        if ref.place in silent and ref.run_id not in facts
        else _observation(ref.run_id, facts.get(ref.run_id), known.get(ref.run_id))
        for ref in refs
    }
    if distant:
        index.remember([seen[ref.run_id] for ref in distant], now)
    return seen


def _unanswered(run_id: str, known: Sighting | None, failure: RlxError, now: float) -> Observation:
    """Conclude from no answer, never `lost`. An end that was seen is a fact, whatever became of the host."""
    if known is None:
        return unreachable(Observation(run_id, RunState.UNREACHABLE), None, failure, now)
    # Lost is no end that anybody recorded: its folder may have been away, or its container.
    if known.observation.state.is_terminal and known.observation.state is not RunState.LOST:
        return known.observation
    return unreachable(known.observation, known.seen, failure, known.silent_since or now)


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


def _observation(run_id: str, facts: Facts | None, known: Sighting | None) -> Observation:
    if facts is None:
        return _without_folder(run_id, known)
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
        started_epoch=facts.started,
        ended_epoch=facts.exit.epoch if facts.exit else None,
        queued_behind=facts.ahead if state is RunState.QUEUED else 0,
        detail=_detail(facts, state),
    )


def _since(facts: Facts, then: float | None) -> float | None:
    return None if then is None else max(0.0, facts.now - then)


def _without_folder(run_id: str, known: Sighting | None) -> Observation:
    """Conclude for one removed, or on a disk that is not mounted. An end that was seen is a fact all the same."""
    if known is not None and known.observation.state.is_terminal:
        return replace(known.observation, detail="its run directory is gone")
    return Observation(run_id, RunState.LOST, detail="its run directory is gone")


def _detail(facts: Facts, state: RunState) -> str:
    if facts.exit is not None:
        return _detail_of_end(facts, facts.exit.code)
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


def _detail_of_end(facts: Facts, code: int) -> str:
    left = f"{facts.members} of its processes still run: rlx stop {facts.run_id}" if facts.members else ""
    return "; ".join(part for part in (_signal_name(code), left) if part)


def _signal_name(code: int) -> str:
    """A shell reports a death by signal as 128 + its number."""
    try:
        return f"ended by {signal.Signals(code - 128).name}"
    except ValueError:
        return ""


def _detail_of_loss(facts: Facts) -> str:
    if facts.started is not None:
        return "its processes are gone and none recorded an end: killed, or the machine restarted"
    return "never started" if facts.holder is Life.NONE else "never started: its holder ended while it waited"
