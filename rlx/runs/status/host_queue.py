"""The queue of a host: which runs have its devices, which wait for them, and about when those start."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rlx.hosts.host_errors import reading_answer
from rlx.model import Place
from rlx.runs import supervisor
from rlx.runs.queries import DEADLINE_S
from rlx.runs.status.forecast import DeviceRequest, Paces, TimeEstimate, estimate_waits, seconds_left
from rlx.runs.status.host_report import epoch_of

if TYPE_CHECKING:
    from rlx.runs.status.snapshots import Snapshot
    from rlx.schedulers.protocol import QueuedJob, Resource


@dataclass(frozen=True, slots=True)
class Holder:
    """A run that has devices. `seconds_left` until it releases them, None if not known here."""

    run_id: str
    kind: str
    devices: tuple[int, ...]
    user: str
    container: str | None
    since: float
    outlives_holder: bool
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class Waiter:
    """A run that waits for `count` of the devices `could`, those that it may use; both None if its rlx is too old.

    `behind` are the runs that have such devices, or wait for them ahead of it. `start` is an estimate.
    """

    run_id: str
    kind: str
    count: int | None
    could: tuple[int, ...] | None
    user: str
    container: str | None
    since: float
    behind: tuple[str, ...]
    start: TimeEstimate


@dataclass(frozen=True, slots=True)
class HostQueue:
    """One host at one moment, `now`; that and each `since` are by its clock.

    `problem`: why it did not answer; everything else is then empty. `inside` is the container that has the folder of
    leases, if the runs are in one. `jobs`: of a login node, whose scheduler assigns devices to jobs, so that the fields
    before are empty; None for any other host. `resources`: what there is to have, where the scheduler says so.
    """

    host: str
    inside: str | None = None
    held: tuple[Holder, ...] = ()
    waiting: tuple[Waiter, ...] = ()
    foreign: tuple[ForeignProcess, ...] = ()
    free: tuple[tuple[str, int], ...] = ()
    problem: str | None = None
    jobs: tuple[QueuedJob, ...] | None = None
    now: float = 0.0
    resources: tuple[Resource, ...] = ()


def host_queue(place: Place, leases: Leases, rows: Mapping[str, Snapshot], paces: Paces) -> HostQueue:
    """Combine the devices of the host with what is known here of runs: `rows`, by the ids of their heads."""
    held = [_holder(run_id, kind, [*leased], rows, paces) for (run_id, kind), leased in _by_run(leases.held)]
    used = {(process.kind, process.device) for process in leases.foreign}
    free = tuple(device for device in leases.free if device not in used)
    waiting = tuple(
        waiter
        for kind in dict.fromkeys(ticket.kind for ticket in leases.waiting)
        for waiter in _waiters(
            [ticket for ticket in leases.waiting if ticket.kind == kind],
            [holder for holder in held if holder.kind == kind],
            _seconds(held, used, kind),
            [number for found, number in free if found == kind],
            rows,
            paces,
        )
    )
    return HostQueue(place.host, place.inside, tuple(held), waiting, leases.foreign, free, now=leases.now)


def _by_run(held: Iterable[Lease]) -> Iterable[tuple[tuple[str, str], Iterable[Lease]]]:
    def run(lease: Lease) -> tuple[str, str]:
        return lease.run_id, lease.kind

    grouped = ((key, list(leases)) for key, leases in groupby(sorted(held, key=run), key=run))
    return sorted(grouped, key=lambda each: (each[0][1], min(lease.device for lease in each[1])))


def _holder(run_id: str, kind: str, leased: Sequence[Lease], rows: Mapping[str, Snapshot], paces: Paces) -> Holder:
    first, row = leased[0], rows.get(run_id)
    left = seconds_left(row, paces) if row else math.inf
    return Holder(
        run_id=run_id,
        kind=kind,
        devices=tuple(sorted(lease.device for lease in leased)),
        user=first.user,
        container=first.container,
        since=min(lease.since for lease in leased),
        outlives_holder=any(lease.outlives_holder for lease in leased),
        seconds_left=left if math.isfinite(left) else None,
    )


def _seconds(held: Iterable[Holder], used: Iterable[tuple[str, int]], kind: str) -> dict[int, float]:
    """Return the seconds until each device is released; infinite for one that a process outside rlx uses."""
    foreign = {number: math.inf for found, number in used if found == kind}
    return foreign | {
        number: math.inf if holder.seconds_left is None else holder.seconds_left
        for holder in held
        if holder.kind == kind
        for number in holder.devices
    }


def _waiters(
    tickets: Sequence[Ticket],
    held: Sequence[Holder],
    seconds: Mapping[int, float],
    free: Sequence[int],
    rows: Mapping[str, Snapshot],
    paces: Paces,
) -> list[Waiter]:
    requests = [_request(ticket, rows, paces) for ticket in tickets]
    estimates = estimate_waits(seconds, free, requests)
    return [
        Waiter(
            ticket.run_id,
            ticket.kind,
            ticket.count,
            ticket.could,
            ticket.user,
            ticket.container,
            ticket.since,
            _behind(request, requests[:position], held),
            estimates[request.run_id].start,
        )
        for position, (ticket, request) in enumerate(zip(tickets, requests, strict=True))
    ]


def _request(ticket: Ticket, rows: Mapping[str, Snapshot], paces: Paces) -> DeviceRequest:
    row = rows.get(ticket.run_id)
    could = None if ticket.could is None else frozenset(ticket.could)
    return DeviceRequest(ticket.run_id, ticket.count or 1, could, paces.seconds(row.ref) if row else math.inf)


def _behind(request: DeviceRequest, ahead: Sequence[DeviceRequest], held: Sequence[Holder]) -> tuple[str, ...]:
    having = [holder.run_id for holder in held if request.could is None or request.could & {*holder.devices}]
    return (*having, *(other.run_id for other in ahead if request.competes(other)))


@dataclass(frozen=True, slots=True)
class Lease:
    """A device that a run has: `device` is its number on the host, `kind` npu, cuda or cpu.

    `container` is the full id of the run's container; None if it has none, or if its directory is another user's.
    `since` is an epoch by the host's clock. `outlives_holder`: only the run's own processes still hold it.
    """

    device: int
    kind: str
    run_id: str
    user: str
    container: str | None
    since: float
    outlives_holder: bool


@dataclass(frozen=True, slots=True)
class Ticket:
    """A waiting run; lower numbers go first among those of a kind that could use the same devices.

    It needs `count` of the devices `could`; None: its rlx is older than tickets that say so, and it could use any.
    """

    number: int
    kind: str
    run_id: str
    user: str
    container: str | None
    since: float
    count: int | None = None
    could: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ForeignProcess:
    """A process that npu-smi or nvidia-smi shows on a device that no run has leased."""

    device: int
    kind: str
    pid: int


@dataclass(frozen=True, slots=True)
class Leases:
    """The devices of one host at one moment. `free` are the (kind, device) that were leased before and are not now.

    `now`: that moment as an epoch by the host's clock, as each `since` is.
    """

    held: tuple[Lease, ...] = ()
    waiting: tuple[Ticket, ...] = ()
    foreign: tuple[ForeignProcess, ...] = ()
    free: tuple[tuple[str, int], ...] = field(default=())
    now: float = 0.0


def query_leases(place: Place, folder: str) -> Leases:
    """Query the leases of a host in one round trip. `folder` is the site's `leases`. Raises HostError."""
    text = supervisor.call(place, "leases", folder, timeout_s=DEADLINE_S)
    with reading_answer(place.host, "who has its devices"):
        return parse_leases(text)


def parse_leases(text: str) -> Leases:
    """Parse what `supervise.sh leases` prints. Raises ValueError or LookupError for anything else."""
    lines = [line.split(" ") for line in text.splitlines()]
    devices = {_device(words[1]): words[2] for words in lines if words[0] == "device"}
    held = [_lease(words, devices) for words in _current(lines, devices)]
    taken = {(lease.kind, lease.device) for lease in held}
    requests = {
        (words[2], words[1]): [int(word) for word in words[3:] if word] for words in lines if words[0] == "wish"
    }
    waiting = [_ticket(words, requests) for words in lines if words[0] == "ticket"]
    return Leases(
        tuple(sorted(held, key=lambda lease: (lease.kind, lease.device))),
        tuple(sorted(waiting, key=lambda ticket: ticket.number)),
        tuple(
            ForeignProcess(_device(words[1])[1], _device(words[1])[0], int(words[2]))
            for words in lines
            if words[0] == "foreign" and _device(words[1]) not in taken
        ),
        tuple(sorted(device for device, state in devices.items() if state == "free" and device not in taken)),
        min(epoch_of(words[1]) for words in lines if words[0] == "now"),
    )


def _device(text: str) -> tuple[str, int]:
    kind, _, number = text.rpartition(".")
    return kind, int(number)


def _current(lines: list[list[str]], devices: dict[tuple[str, int], str]) -> list[list[str]]:
    """Return the claim that holds each device; of a locked one whose owner cannot be seen, the newest that may."""
    claims = [words for words in lines if words[0] == "claim" and words[2] != "dead"]
    current: dict[tuple[str, int], list[str]] = {}
    for words in sorted(claims, key=lambda words: (words[2] == "live", epoch_of(words[4]))):
        if words[2] == "live" or devices.get(_device(words[1])) == "locked":
            current[_device(words[1])] = words
    return list(current.values())


def _lease(words: list[str], devices: dict[tuple[str, int], str]) -> Lease:
    kind, device = _device(words[1])
    locked = devices.get((kind, device)) == "locked"
    return Lease(device, kind, *_owner(words[3:]), outlives_holder=not locked)


def _ticket(words: list[str], requests: Mapping[tuple[str, str], Sequence[int]]) -> Ticket:
    ticket = Ticket(int(words[1]), words[2], *_owner(words[3:]))
    request = requests.get((words[2], words[1]))
    return replace(ticket, count=request[0], could=tuple(request[1:])) if request else ticket


def _owner(words: list[str]) -> tuple[str, str, str | None, float]:
    """Parse run id, user, container and time. A run directory may contain blanks."""
    user, since, container, *path = words
    run_id = PurePosixPath(" ".join(path)).name
    return run_id, user, None if container == "-" else container, epoch_of(since)
