"""Deal the blocks of a sweep to hosts: each to the one that would be through with it first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlx.model import Finding


@dataclass(frozen=True, slots=True)
class Room:
    """The room of one host. `width`: how many runs of the sweep it has devices for at a time; `ahead`: runs that have
    or await its devices already, whoever launched them."""

    host: str
    width: int
    ahead: int


@dataclass(frozen=True, slots=True)
class Deal:
    """Who takes what of a sweep. `asked`: digest of what was typed, the same whatever was free; `hosts` as typed.

    `rooms`: what was free on those that take part; `findings`: what is to be said of those that do not, and of blocks.
    `container` and `devices` as typed; `watched`: by arm, the noise of another arm that is watched for in it. Not
    `is_new`: this brings a launch to its end that was interrupted.
    """

    asked: str
    hosts: tuple[str, ...]
    rooms: tuple[Room, ...]
    findings: tuple[Finding, ...] = ()
    container: str | None = None
    devices: str | None = None
    watched: Mapping[str, Any] = field(default_factory=dict)
    is_new: bool = True


def deal(blocks: Mapping[int, int], rooms: Sequence[Room], settled: Mapping[int, str]) -> dict[int, str]:
    """Say for each block, by its seed, which host takes it. `blocks`: how many runs each has, in the order of launch.

    A block goes where its last run would begin first, by the runs that are before it and by how many fit side by side;
    among equals to the host that was named first. `settled` are those of which that is known already.
    """
    found: dict[int, str] = {}
    load = {room.host: room.ahead for room in rooms}
    for seed, host in settled.items():
        if seed in blocks and host in load:
            found[seed] = host
            load[host] += blocks[seed]
    for seed, size in blocks.items():
        if seed not in settled:
            best = min(rooms, key=lambda room: (load[room.host] + size) / room.width)
            found[seed] = best.host
            load[best.host] += size
    return {seed: found[seed] for seed in blocks if seed in found}
