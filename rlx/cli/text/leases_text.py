"""The devices of a host as lines of text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rlx.cli.text.device_words import wish_words
from rlx.runs.duration import duration

if TYPE_CHECKING:
    from rlx.runs.looking.leases import Leases


def lease_lines(leases: Leases) -> list[str]:
    """A line a device that somebody has, then who waits, then what is free; empty if nothing was ever leased."""
    now = leases.now
    held = [
        f"{lease.kind} {lease.device}  {lease.run_id}  {_owner(lease.user, lease.container, now - lease.since)}"
        + ("  (its holder is gone)" if lease.outlives_holder else "")
        for lease in leases.held
    ]
    foreign = [f"{kind} {device}  in use by {pids}, outside rlx" for kind, device, pids in _by_device(leases)]
    waiting = [
        f"waits for {wish_words(ticket)}  {ticket.run_id}  {_owner(ticket.user, ticket.container, now - ticket.since)}"
        for ticket in leases.waiting
    ]
    return [*held, *foreign, *waiting, *_free(leases)]


def _owner(user: str, container: str | None, seconds: float) -> str:
    where = f" in {container[:12]}" if container else ""
    return f"{user}{where}, for {duration(max(0.0, seconds))}"


def _by_device(leases: Leases) -> Iterable[tuple[str, int, str]]:
    devices = sorted({(process.kind, process.device) for process in leases.foreign})
    for kind, device in devices:
        pids = [process.pid for process in leases.foreign if (process.kind, process.device) == (kind, device)]
        yield kind, device, f"pid{'s' * (len(pids) != 1)} {' '.join(map(str, pids))}"


def _free(leases: Leases) -> list[str]:
    foreign = {(process.kind, process.device) for process in leases.foreign}
    free = [device for device in leases.free if device not in foreign]
    return [
        f"free: {kind} {' '.join(str(number) for found, number in free if found == kind)}"
        for kind in sorted({kind for kind, _ in free})
    ]
