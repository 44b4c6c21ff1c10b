"""Conclude the states of runs that rlx started from what their hosts answered, or failed to. Queries no host."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.errors import RlxError
from rlx.model import RunState
from rlx.runs.duration import duration
from rlx.runs.run import RunRef
from rlx.runs.status.host_report import Life, Reports, RunFacts, container_detail, derive_state
from rlx.runs.status.observation import Observation, unreachable

if TYPE_CHECKING:
    from rlx.runs.index.run_index import Index
    from rlx.runs.index.tables import CachedState


def observe(index: Index, refs: Sequence[RunRef], reports: Reports) -> dict[str, Observation]:
    """Conclude the state of each run, by id, from what its host has just reported, or failed to.

    The cached state completes it where the host is silent or the run directory is gone.
    """
    silent = reports.failures
    facts = {run_id: found for answer in reports.answers for run_id, found in answer.items()}
    unsure = [ref for ref in refs if not ref.place.is_local or ref.place in silent]
    known = index.cached_states([ref.run_id for ref in unsure]) if unsure else {}
    now, seen = time.time(), dict[str, Observation]()
    for ref in refs:
        run_id = ref.run_id
        if run_id in facts:
            seen[run_id] = _from_facts(facts[run_id])
        elif ref.place in silent:
            seen[run_id] = _without_answer(run_id, known.get(run_id), silent[ref.place], now)
        else:
            seen[run_id] = _without_folder(run_id, known.get(run_id), now)
    # A run that no host has may be on its way from one to another: it waits.
    lost = [run_id for run_id, found in seen.items() if found.state is RunState.LOST and found.started_epoch is None]
    for run_id, move in (index.open_moves(lost) if lost else {}).items():
        seen[run_id] = Observation(run_id, RunState.QUEUED, detail=f"on its way from {move.source} to {move.target}")
    return seen


def add_nodes(head: Observation, workers: Sequence[RunRef], seen: Mapping[str, Observation]) -> Observation:
    """Return the head's observation, with a remark on each worker that is in another state."""
    remarks = []
    for worker in workers:
        found = seen[worker.run_id]
        if _is_apart(head, found):
            why = f" ({found.detail})" if found.detail else ""
            remarks.append(f"node {worker.node} on {worker.host}: {found.state}{why}")
    return replace(head, detail="; ".join(filter(None, (head.detail, *remarks))), is_apart=True) if remarks else head


def _is_apart(head: Observation, worker: Observation) -> bool:
    if head.state.is_terminal:
        return not worker.state.is_terminal
    # A worker has no steps of its own, by which it could be running.
    return worker.state not in (RunState.STARTING, RunState.RUNNING, head.state)


def _without_answer(run_id: str, known: CachedState | None, failure: RlxError, now: float) -> Observation:
    """Conclude from no answer, never `lost`. A cached end is final, whatever happens to the host."""
    if known is None:
        return unreachable(Observation(run_id, RunState.UNREACHABLE), None, failure, now)
    # `lost` is a conclusion, not a record: the run directory may come back.
    if known.observation.state.is_terminal and known.observation.state is not RunState.LOST:
        return _by_now(known, now)
    return unreachable(known.observation, known.seen, failure, known.silent_since or now)


def _by_now(known: CachedState, now: float) -> Observation:
    """Return a cached end with the time since then: by this machine's clock, before that by its host's."""
    seen = replace(known.observation, clock=None)
    if seen.seconds_since_end is None or known.seen is None:
        return seen
    return replace(seen, seconds_since_end=seen.seconds_since_end + max(0.0, now - known.seen))


def _from_facts(facts: RunFacts) -> Observation:
    state = derive_state(facts)
    return Observation(
        run_id=facts.run_id,
        state=state,
        exit_code=facts.exit.code if facts.exit else _code_of_jobs(facts, state),
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


def _code_of_jobs(facts: RunFacts, state: RunState) -> int | None:
    """Return the exit code of a run whose end is known by its Ray jobs alone."""
    return facts.ray.code if facts.ray and state.is_terminal and state is not RunState.LOST else None


def _since(facts: RunFacts, then: float | None) -> float | None:
    return None if then is None else max(0.0, facts.now - then)


def _without_folder(run_id: str, known: CachedState | None, now: float) -> Observation:
    """Conclude for a run directory that was removed, or is on a disk that is not mounted. A cached end is final."""
    if known is not None and known.observation.state.is_terminal:
        return replace(_by_now(known, now), detail="its run directory is gone")
    return Observation(run_id, RunState.LOST, detail="its run directory is gone")


def _detail(facts: RunFacts, state: RunState) -> str:
    if facts.exit is not None:
        code = facts.exit.code
        left = f"{facts.members} of its processes still run: rlx stop {facts.run_id}" if facts.members else ""
        cut = facts.job.cut_words(facts.cut) if code and facts.job else ""
        return "; ".join(part for part in (cut, _signal_name(code), left) if part)
    if facts.job is not None and not facts.is_removed:
        started = facts.started is not None
        return facts.job.detail(state, started=started, stop_asked=facts.stop_asked)
    if facts.is_removed:
        return f"its run directory was removed, and {facts.members} of its processes run: rlx stop {facts.run_id}"
    if facts.is_elsewhere:
        return f"not known here: it was started on {facts.node}, which shares this folder; ask that host"
    if detail := container_detail(facts) or _detail_of_jobs(facts, state):
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


def _detail_of_jobs(facts: RunFacts, state: RunState) -> str:
    """Say how the Ray jobs of a run are that has recorded no end; empty if it has none."""
    if (ray := facts.ray) is None:
        return ""
    job = f"Ray job {ray.job} at {ray.address}"
    if state is RunState.LOST:
        return f"its processes are gone, and its {job} with its cluster"
    parts = [f"its {job} is {ray.status}"]
    if ray.silent is not None:
        parts.append(f"its dashboard has not answered for {duration(max(0.0, facts.now - ray.silent))}")
    if not facts.is_followed:
        parts.append("no process follows it any more, until the next launch on its host")
    if facts.stop_asked and not state.is_terminal:
        parts.append(f"it was to stop: rlx stop {facts.run_id} again")
    return "; ".join(parts)


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
