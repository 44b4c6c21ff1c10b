"""Estimate when runs start and end, from the pace of those that make steps and the time that ended ones took."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby
from typing import TYPE_CHECKING

from rlx.model import RunState

if TYPE_CHECKING:
    from rlx.runs.run import RunRef
    from rlx.runs.status.snapshots import Snapshot

Times = Mapping[str, tuple[float, float]]
"""By run id, the seconds from now when it starts and when it ends; infinite: not known."""


@dataclass(frozen=True, slots=True)
class TimeEstimate:
    """A time in `seconds` from now; None if not known: then `at_least` so many, and `why` says what is missing.

    It holds if nothing else is queued, and every run continues at its pace.
    """

    seconds: float | None
    at_least: float = 0.0
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WaitEstimate:
    """When a waiting run starts, and when it ends."""

    start: TimeEstimate
    end: TimeEstimate


class Paces:
    """How long runs of an arm take, by other runs of the same launch; those on the same host count first."""

    def __init__(self, rows: Iterable[Snapshot]) -> None:
        self._known: dict[tuple[str, ...], list[float]] = {}
        for row in rows:
            if (seconds := _whole_seconds(row)) is not None:
                for key in _keys(row.ref):
                    self._known.setdefault(key, []).append(seconds)

    def seconds(self, ref: RunRef) -> float:
        """Return the seconds that a run takes; infinite if no run of the arm has made steps."""
        known = next((self._known[key] for key in _keys(ref) if key in self._known), None)
        return sum(known) / len(known) if known else math.inf


def _keys(ref: RunRef) -> tuple[tuple[str, ...], ...]:
    return (ref.launch_id, ref.arm, ref.host), (ref.launch_id, ref.arm)


def _whole_seconds(row: Snapshot) -> float | None:
    seen = row.observation
    if row.state is RunState.FINISHED and seen.started_epoch is not None and seen.ended_epoch is not None:
        return max(0.0, seen.ended_epoch - seen.started_epoch) if row.steps_done >= (row.steps_total or 0) else None
    if row.state is RunState.RUNNING and seen.seconds_since_start is not None and row.seconds_left is not None:
        return seen.seconds_since_start + row.seconds_left
    return None


def seconds_left(row: Snapshot, paces: Paces) -> float:
    """Estimate when a run releases its devices; infinite if not known."""
    if row.state is RunState.RUNNING and row.seconds_left is not None:
        return row.seconds_left
    if row.state in (RunState.STARTING, RunState.RUNNING):
        return max(0.0, paces.seconds(row.ref) - (row.observation.seconds_since_start or 0.0))
    return math.inf


def estimate_waits(
    held: Mapping[int, float], free: Iterable[int], waiting: Sequence[DeviceRequest]
) -> Mapping[str, WaitEstimate]:
    """Estimate when each of these waiting runs starts and ends. An infinite time is not known, and may be zero."""
    free = tuple(free)
    known = start_and_end_times(held, free, waiting)
    hurried = [replace(request, seconds=_or_none(request.seconds)) for request in waiting]
    earliest = start_and_end_times({device: _or_none(seconds) for device, seconds in held.items()}, free, hurried)
    estimates = {}
    for request in waiting:
        (start, end), (first_start, first_end) = known[request.run_id], earliest[request.run_id]
        estimates[request.run_id] = WaitEstimate(_estimate(start, first_start), _estimate(end, first_end))
    return estimates


def _estimate(seconds: float, at_least: float) -> TimeEstimate:
    return TimeEstimate(seconds if math.isfinite(seconds) else None, min(seconds, _or_none(at_least)))


def _or_none(seconds: float) -> float:
    """Replace an unknown time by none."""
    return seconds if math.isfinite(seconds) else 0.0


# ---- the rule by which the holders of a host start runs --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request of a run for `count` of the devices `could`; None: any.

    `seconds` is how long it will take, infinite if not known.
    """

    run_id: str
    count: int
    could: frozenset[int] | None = None
    seconds: float = math.inf

    def accepts(self, device: int) -> bool:
        return self.could is None or device in self.could

    def competes(self, other: DeviceRequest) -> bool:
        """Tell whether both could take the same device."""
        return self.could is None or other.could is None or bool(self.could & other.could)


def runs_to_start(free: Iterable[int], waiting: Sequence[DeviceRequest]) -> dict[str, tuple[int, ...]]:
    """Return the devices of each run that starts now; `waiting` is in the order of the tickets.

    A run overtakes those ahead of it if it starts on devices that none of them could use: it then does not delay them,
    however long it runs. On the host, `rlx/payload/supervise/40-queue.sh` decides it.
    """
    left, started = sorted(free), {}
    for position, request in enumerate(waiting):
        ahead = [other for other in waiting[:position] if other.run_id not in started]
        able = [device for device in left if request.accepts(device) and not any(one.accepts(device) for one in ahead)]
        if request.could is not None and len(able) >= request.count:
            started[request.run_id] = tuple(able[: request.count])
            left = [device for device in left if device not in started[request.run_id]]
    return started


def start_and_end_times(held: Mapping[int, float], free: Iterable[int], waiting: Sequence[DeviceRequest]) -> Times:
    """Simulate the queue, if nothing is added. `held`: the seconds until each device is released."""
    now_free, queue, found = set(free), list(waiting), {}
    order = count()
    releases: list[tuple[float, int, tuple[int, ...]]] = [
        (seconds, next(order), (device,)) for device, seconds in held.items() if seconds < math.inf
    ]
    heapq.heapify(releases)
    now = 0.0
    while True:
        for run_id, devices in runs_to_start(now_free, queue).items():
            request = next(request for request in queue if request.run_id == run_id)
            queue.remove(request)
            now_free -= set(devices)
            found[run_id] = (now, now + request.seconds)
            if request.seconds < math.inf:
                heapq.heappush(releases, (now + request.seconds, next(order), devices))
        if not releases:
            return found | {request.run_id: (math.inf, math.inf) for request in queue}
        now, _, devices = heapq.heappop(releases)
        now_free |= set(devices)


# ---- the runs of one launch ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Waiting:
    """The runs of a launch that wait on one host, in their order; `why` the first of them waits."""

    host: str
    run_ids: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """A launch, or the launches of a script's name, of which `launch_id` is the newest.

    `hosts`, `arms` and `seeds` are in the order of its runs; `end` is None if all have ended.
    """

    launch_id: str
    name: str
    hosts: tuple[str, ...]
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    ended: int
    waiting: tuple[Waiting, ...]
    end: TimeEstimate | None


def sweeps(rows: Sequence[Snapshot]) -> list[Sweep]:
    """Summarise each group of these rows, which are sorted by group."""
    found = []
    for _, group in groupby(rows, key=lambda row: row.ref.group_id):
        runs = list(group)
        waiting = [
            Waiting(host, tuple(row.ref.run_id for row in queued), queued[0].observation.detail or "next in line")
            for host, queued in _by_host(row for row in runs if _waits(row))
        ]
        found.append(
            Sweep(
                launch_id=max(runs, key=lambda row: row.ref.created).ref.launch_id,
                name=runs[0].ref.name,
                hosts=tuple(dict.fromkeys(row.ref.host for row in runs)),
                arms=tuple(dict.fromkeys(row.ref.arm for row in runs)),
                seeds=tuple(dict.fromkeys(row.ref.seed for row in runs)),
                ended=sum(row.state.is_terminal for row in runs),
                waiting=tuple(waiting),
                end=estimate_end(runs),
            )
        )
    return found


def _by_host(rows: Iterable[Snapshot]) -> list[tuple[str, list[Snapshot]]]:
    hosts: dict[str, list[Snapshot]] = {}
    for row in rows:
        hosts.setdefault(row.ref.host, []).append(row)
    return list(hosts.items())


def _waits(row: Snapshot) -> bool:
    """Tell whether it has no devices yet; a run that was just shipped has the state `starting`, too."""
    return row.state is RunState.QUEUED or (row.state is RunState.STARTING and row.observation.started_epoch is None)


def estimate_end(rows: Sequence[Snapshot]) -> TimeEstimate | None:
    """Estimate when all runs of a launch will have ended; None if they have. Runs outside of it are not considered."""
    left = [row for row in rows if not row.state.is_terminal]
    if not left:
        return None
    paces = Paces(rows)
    ends = [end for _, runs in _by_host(left) for end in _ends(runs, paces)]
    seconds = max(math.inf if end.seconds is None else end.seconds for end in ends)
    why = dict.fromkeys(reason for end in ends for reason in end.why)
    return TimeEstimate(seconds if math.isfinite(seconds) else None, max(end.at_least for end in ends), tuple(why))


def _ends(rows: Sequence[Snapshot], paces: Paces) -> Iterator[TimeEstimate]:
    """Estimate when each of these runs of one host ends, if the launch has only its own devices there."""
    running = [row for row in rows if not _waits(row)]
    waiting = [row for row in rows if _waits(row)]
    numbers = count(-1, -1)
    held: dict[int, float] = {}
    for row in running:
        left = seconds_left(row, paces)
        held |= dict.fromkeys(row.device_list or [next(numbers) for _ in range(row.devices)], left)
        yield TimeEstimate(left) if math.isfinite(left) else TimeEstimate(None, why=(_why_unknown(row),))
    if waiting and waiting[0].observation.queued_behind > len(running):
        yield TimeEstimate(None, why=(_why_not_started(waiting[0]),))
        return
    requests = [
        DeviceRequest(row.ref.run_id, row.devices, frozenset(row.device_list or held), paces.seconds(row.ref))
        for row in waiting
    ]
    estimates = estimate_waits(held, (), requests)
    for row in waiting:
        end = estimates[row.ref.run_id].end
        if end.seconds is None and math.isinf(paces.seconds(row.ref)):
            end = TimeEstimate(None, end.at_least, (f"no pace of {row.ref.arm} is known yet",))
        elif end.seconds is None and not end.at_least:
            end = TimeEstimate(None, why=(_why_not_started(row),))
        yield end


def _why_unknown(row: Snapshot) -> str:
    if row.state is RunState.UNREACHABLE:
        return f"{row.ref.host} does not answer"
    return (
        f"{row.ref.short_name} stands still"
        if row.state is RunState.STALLED
        else f"no pace of {row.ref.arm} is known yet"
    )


def _why_not_started(row: Snapshot) -> str:
    if not row.observation.queued_behind:
        return f"nothing of it has started on {row.ref.host} yet"
    return f"runs outside this launch are ahead on {row.ref.host}"
