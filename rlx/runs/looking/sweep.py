"""The runs of one launch as a whole: what waits and why, and about when all of them have ended."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from typing import TYPE_CHECKING

from rlx.model import RunState
from rlx.runs.looking.forecast import Estimate, Paces, foretell, seconds_left
from rlx.runs.looking.turns import Wish

if TYPE_CHECKING:
    from rlx.runs.looking.overview import Overview


@dataclass(frozen=True, slots=True)
class Waiting:
    """The runs of a launch that wait on one host, in their order; `why` the first of them does."""

    host: str
    run_ids: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """One launch. `hosts`, `arms` and `seeds` are in the order of its runs; `end` is None where all have ended."""

    launch_id: str
    name: str
    hosts: tuple[str, ...]
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    ended: int
    waiting: tuple[Waiting, ...]
    end: Estimate | None


def sweeps(rows: Sequence[Overview]) -> list[Sweep]:
    """Each launch of these rows, which lie side by side."""
    return [_sweep(list(group)) for _, group in groupby(rows, key=lambda row: row.ref.launch_id)]


def _sweep(rows: Sequence[Overview]) -> Sweep:
    return Sweep(
        launch_id=rows[0].ref.launch_id,
        name=rows[0].ref.name,
        hosts=tuple(dict.fromkeys(row.ref.host for row in rows)),
        arms=tuple(dict.fromkeys(row.ref.arm for row in rows)),
        seeds=tuple(dict.fromkeys(row.ref.seed for row in rows)),
        ended=sum(row.state.is_terminal for row in rows),
        waiting=tuple(_waiting(rows)),
        end=when_all_end(rows),
    )


def _waiting(rows: Sequence[Overview]) -> Iterator[Waiting]:
    for host, here in _by_host(row for row in rows if _waits(row)):
        yield Waiting(host, tuple(row.ref.run_id for row in here), here[0].observation.detail or "next in line")


def _by_host(rows: Iterable[Overview]) -> list[tuple[str, list[Overview]]]:
    hosts: dict[str, list[Overview]] = {}
    for row in rows:
        hosts.setdefault(row.ref.host, []).append(row)
    return list(hosts.items())


def _waits(row: Overview) -> bool:
    """Tell whether it has no devices yet; one that was just shipped says `starting`, too."""
    return row.state is RunState.QUEUED or (row.state is RunState.STARTING and row.observation.started_epoch is None)


def when_all_end(rows: Sequence[Overview]) -> Estimate | None:
    """Estimate when all of a launch have ended; None if they have. Runs outside of it are not known here."""
    left = [row for row in rows if not row.state.is_terminal]
    if not left:
        return None
    paces = Paces(rows)
    ends = [end for _, here in _by_host(left) for end in _ends(here, paces)]
    seconds = max(math.inf if end.seconds is None else end.seconds for end in ends)
    why = dict.fromkeys(reason for end in ends for reason in end.why)
    return Estimate(seconds if math.isfinite(seconds) else None, max(end.at_least for end in ends), tuple(why))


def _ends(rows: Sequence[Overview], paces: Paces) -> Iterator[Estimate]:
    """When each of these runs of one host ends, its own devices being all that the launch has there."""
    at_work = [row for row in rows if not _waits(row)]
    waiting = [row for row in rows if _waits(row)]
    numbers = count(-1, -1)
    held: dict[int, float] = {}
    for row in at_work:
        left = seconds_left(row, paces)
        held |= dict.fromkeys(row.device_list or [next(numbers) for _ in range(row.devices)], left)
        yield Estimate(left) if math.isfinite(left) else Estimate(None, why=(_unknown_end(row),))
    if waiting and waiting[0].observation.queued_behind > len(at_work):
        yield Estimate(None, why=(_others(waiting[0]),))
    else:
        yield from _ends_of_waiting(waiting, held, paces)


def _ends_of_waiting(waiting: Sequence[Overview], held: dict[int, float], paces: Paces) -> Iterator[Estimate]:
    wishes = [
        Wish(row.ref.run_id, row.devices, frozenset(row.device_list or held), paces.seconds(row.ref)) for row in waiting
    ]
    foretold = foretell(held, (), wishes)
    for row in waiting:
        end = foretold[row.ref.run_id].end
        if end.seconds is None and math.isinf(paces.seconds(row.ref)):
            end = Estimate(None, end.at_least, (_unknown_arm(row),))
        elif end.seconds is None and not end.at_least:
            end = Estimate(None, why=(_others(row),))
        yield end


def _unknown_end(row: Overview) -> str:
    if row.state is RunState.UNREACHABLE:
        return f"{row.ref.host} does not answer"
    return f"{row.ref.short_name} stands still" if row.state is RunState.STALLED else _unknown_arm(row)


def _unknown_arm(row: Overview) -> str:
    return f"no pace of {row.ref.arm} is known yet"


def _others(row: Overview) -> str:
    if not row.observation.queued_behind:
        return f"nothing of it has started on {row.ref.host} yet"
    return f"runs outside this launch are ahead on {row.ref.host}"
