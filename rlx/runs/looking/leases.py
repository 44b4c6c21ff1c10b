"""Ask a host who holds its devices, who waits for them, and which processes use them without asking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from rlx.hosts.host_errors import reading_answer
from rlx.model import Place
from rlx.runs import supervisor
from rlx.runs.looking.fan_out import DEADLINE_S
from rlx.runs.looking.state import epoch_of


@dataclass(frozen=True, slots=True)
class Lease:
    """A device that a run has: `device` is its number on the host, `kind` npu, cuda or cpu.

    `container` is the full id of the run's container; None if it has none, or if its directory is another user's.
    `since` is in seconds since 1970 by the host's clock. `outlives_holder`: only the run's own processes still say so.
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
    """A run that waits; lower numbers go first among those of a kind that could take the same devices.

    It wants `count` of the devices `could`; None: its rlx is older than tickets that say so, and it could take any.
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
    """A process that npu-smi or nvidia-smi sees on a device that no run has leased."""

    device: int
    kind: str
    pid: int


@dataclass(frozen=True, slots=True)
class Leases:
    """The devices of one host at one moment. `free` are the (kind, device) that were leased before and are not now.

    `now`: that moment in seconds since 1970 by the host's clock, as each `since` is.
    """

    held: tuple[Lease, ...] = ()
    waiting: tuple[Ticket, ...] = ()
    foreign: tuple[ForeignProcess, ...] = ()
    free: tuple[tuple[str, int], ...] = field(default=())
    now: float = 0.0


def look_at_leases(place: Place, folder: str) -> Leases:
    """One round trip; writes nothing there. `folder` is the site's `leases`. Raises HostError if the host is silent."""
    text = supervisor.call(place, "leases", folder, timeout_s=DEADLINE_S)
    with reading_answer(place.host, "who has its devices"):
        return parse_leases(text)


def parse_leases(text: str) -> Leases:
    """Parse what `supervise.sh leases` prints. Raises ValueError or LookupError for anything else."""
    lines = [line.split(" ") for line in text.splitlines()]
    devices = {_device(words[1]): words[2] for words in lines if words[0] == "device"}
    held = [_lease(words, devices) for words in _current(lines, devices)]
    taken = {(lease.kind, lease.device) for lease in held}
    wishes = {(words[2], words[1]): [int(word) for word in words[3:] if word] for words in lines if words[0] == "wish"}
    waiting = [_ticket(words, wishes) for words in lines if words[0] == "ticket"]
    return Leases(
        tuple(sorted(held, key=lambda lease: (lease.kind, lease.device))),
        tuple(sorted(waiting, key=lambda ticket: ticket.number)),
        tuple(
            process
            for words in lines
            if words[0] == "foreign" and (process := _foreign(words)) and (process.kind, process.device) not in taken
        ),
        tuple(sorted(device for device, state in devices.items() if state == "free" and device not in taken)),
        min(epoch_of(words[1]) for words in lines if words[0] == "now"),
    )


def _device(text: str) -> tuple[str, int]:
    kind, _, number = text.rpartition(".")
    return kind, int(number)


def _current(lines: list[list[str]], devices: dict[tuple[str, int], str]) -> list[list[str]]:
    """Choose the claim that holds a device; of a locked one whose owner cannot be looked at, the newest that may."""
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


def _ticket(words: list[str], wishes: Mapping[tuple[str, str], Sequence[int]]) -> Ticket:
    ticket = Ticket(int(words[1]), words[2], *_owner(words[3:]))
    wish = wishes.get((words[2], words[1]))
    return replace(ticket, count=wish[0], could=tuple(wish[1:])) if wish else ticket


def _owner(words: list[str]) -> tuple[str, str, str | None, float]:
    """Run id, user, container and time. A run directory may contain blanks."""
    user, since, container, *path = words
    run_id = PurePosixPath(" ".join(path)).name
    return run_id, user, None if container == "-" else container, epoch_of(since)


def _foreign(words: list[str]) -> ForeignProcess:
    kind, device = _device(words[1])
    return ForeignProcess(device, kind, int(words[2]))
