"""Move blocks of a sweep that wait to hosts of it that are free, for commands that wait for runs.

A block moves as a whole, and only while none of its runs has begun. What cannot be settled now, because a host does not
answer, is settled at a later query. `rlx status` only reads: it names what would move, and the command that moves it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.errors import RlxError
from rlx.model import RunState

if TYPE_CHECKING:
    from rlx.api.sweep_blocks import Block, PlannedBlock, SweepBlocks
    from rlx.api.telling import Tell
    from rlx.runs import Index, Leases
    from rlx.runs.index.tables import Move
    from rlx.runs.status.snapshots import Snapshot

_PAUSE_S = 10.0
_MAY_MOVE = (RunState.QUEUED, RunState.UNREACHABLE)


class Rebalancing:
    """Rebalance query after query, but ask the hosts of a sweep who has their devices only now and then."""

    def __init__(self, index: Index, tell: Tell) -> None:
        self._index, self._tell = index, tell
        self._told: set[str] = set()
        self._due = 0.0

    def tend(self, rows: Sequence[Snapshot]) -> frozenset[str]:
        """Move what waits of these runs, where a host of their sweep is free. Returns the ids of those that moved."""
        from rlx.api.sweep_file import only_one

        launches = self._launches(rows)
        if not launches:
            return frozenset()
        with only_one(self._index.home, wait=False) as is_ours:
            moved = [run_id for sweep in self._sweeps(launches, rows) if is_ours for run_id in self._tend_sweep(sweep)]
        # What was moved is queried again at once, and may leave more to do.
        self._due = time.monotonic() + (0.0 if moved else _PAUSE_S)
        return frozenset(moved)

    def suggest(self, rows: Sequence[Snapshot]) -> None:
        """Name what `tend` would try to move of these runs, once each, and change nothing here or on a host."""
        launches = self._launches(rows)
        if not launches:
            return
        for sweep in self._sweeps(launches, rows):
            for block, target in _choices(sweep):
                what = f"seed {block.seed} ({block.arms}) waits on {block.host} while {target} is free"
                self._tell_once(f"rlx: {what}; to move it: rlx wait {sweep.launch_id}")
            for move in _open_moves(sweep):
                what = f"the move of seed {move.seed} from {move.source} to {move.target} was interrupted"
                self._tell_once(f"rlx: {what}; to complete it: rlx wait {sweep.launch_id}")
        self._due = time.monotonic() + _PAUSE_S

    def _launches(self, rows: Sequence[Snapshot]) -> list[str]:
        """The launches with runs that may move; none until the pause is over, and where no sweep was ever launched."""
        from rlx.api.sweep_file import sweep_folder

        launches = dict.fromkeys(row.ref.launch_id for row in rows if row.state in _MAY_MOVE)
        if not launches or time.monotonic() < self._due or not sweep_folder(self._index.home).is_dir():
            return []
        return [*launches]

    def _sweeps(self, launches: Sequence[str], rows: Sequence[Snapshot]) -> Iterator[SweepBlocks]:
        from rlx.api.sweep_blocks import blocks_of

        by_id = {row.ref.run_id: row for row in rows}
        for launch_id in launches:
            if sweep := blocks_of(self._index, launch_id, by_id):
                yield sweep

    def _tend_sweep(self, sweep: SweepBlocks) -> list[str]:
        moved: list[str] = []
        for move in _open_moves(sweep):
            moved += self._tried(sweep, sweep.block(move.seed), move)
        for block, target in _choices(sweep):
            moved += self._tried(sweep, block, target)
        return moved

    def _tried(self, sweep: SweepBlocks, block: Block, what: Move | str) -> list[str]:
        """The ids of the runs that were moved. What stands in the way is told once."""
        try:
            if isinstance(what, str):
                return self._begin(sweep, block, what)
            return self._go_on(sweep, block, what)
        except RlxError as error:
            self._tell_once(f"rlx: seed {block.seed} stays for now: {error.message.splitlines()[0]}")
            return []

    def _begin(self, sweep: SweepBlocks, block: Block, target: str) -> list[str]:
        """Move a block that waits to a host that is free. Nothing is withdrawn before it is known to fit there."""
        from rlx.runs.index.tables import Move, MovePhase
        from rlx.runs.launching.moving import withdraw

        planned = _planned(sweep, block, [target])
        before = [move for move in sweep.moves_of(block.seed) if move.has_left]
        move = Move(sweep.launch_id, block.seed, len(before) + 1, block.host, target, time.time(), MovePhase.ASKED)
        if not withdraw(self._index, move, block.refs):
            return []
        return self._ship(sweep, block, move, planned)

    def _go_on(self, sweep: SweepBlocks, block: Block, move: Move) -> list[str]:
        """Settle a move that was cut off."""
        from rlx.runs.index.tables import MovePhase
        from rlx.runs.launching.moving import withdraw

        if move.phase is not MovePhase.WITHDRAWN and not block.is_answered:
            return []
        if move.phase is MovePhase.SENT and block.is_seen:
            self._index.note_move(replace(move, phase=MovePhase.DONE))
            return []
        if move.phase is MovePhase.ASKED and not withdraw(self._index, move, block.refs):
            return []
        # It may have arrived where it was sent to: then nowhere else.
        hosts = [move.target] if move.phase is MovePhase.SENT else list(sweep.file.hosts)
        return self._ship(sweep, block, move, _planned(sweep, block, hosts))

    def _ship(self, sweep: SweepBlocks, block: Block, move: Move, planned: PlannedBlock) -> list[str]:
        from rlx.runs.launching.moving import ship

        move = replace(move, target=planned.host.name)
        came = [one for one in sweep.moves_of(block.seed) if one.has_left and one.number < move.number]
        ship(self._index, [*came, move], planned.plans, block.runs, os.environ)
        way = f"from {move.source} to {move.target}" if move.source != move.target else f"back to {move.target}"
        self._tell(f"rlx: moved seed {block.seed} ({block.arms}) {way}: none of it had begun")
        return list(block.ids)

    def _tell_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._tell(line)


def _open_moves(sweep: SweepBlocks) -> list[Move]:
    """The moves that have come to no end."""
    from rlx.runs.index.tables import MovePhase

    return [move for move in sweep.moves if move.phase is not MovePhase.DONE]


def _planned(sweep: SweepBlocks, block: Block, hosts: Sequence[str]) -> PlannedBlock:
    """The block on that of these hosts where it would be through first. Raises RlxError where it fits on none."""
    from rlx.runs.launching.shipment import pick_secrets

    found, left_out = sweep.at_hosts(block, hosts)
    if not found:
        raise RlxError("; ".join(f"{one.host}: {one.why}" for one in left_out))
    best = min(found, key=lambda one: (one.host.room.ahead + len(block.runs)) / one.host.room.width)
    for plan in best.plans:
        pick_secrets(plan, os.environ)
    return best


def _choices(sweep: SweepBlocks) -> list[tuple[Block, str]]:
    """The blocks to move, each with a host of the sweep that is free: of the longest queue, what would wait longest."""
    waiting = [block for block in sweep.blocks if block.waits and block.ahead]
    with_queue = {block.host for block in sweep.blocks if block.waits}
    free = _free_hosts(sweep, [host for host in sweep.file.hosts if host not in with_queue]) if waiting else []
    chosen = []
    for host in free:
        queues = [[block for block in waiting if block.host == name] for name in {block.host for block in waiting}]
        if not queues:
            break
        longest = max(queues, key=len)
        chosen.append((longest[-1], host))
        waiting.remove(longest[-1])
    return chosen


def _free_hosts(sweep: SweepBlocks, hosts: Sequence[str]) -> list[str]:
    """Those of these hosts where a run would begin at once. One that does not answer is not free."""
    from rlx.runs.queries import in_parallel

    kind = next(iter(sweep.file.plans.values())).device_kind
    answers = in_parallel(hosts, _leases_of)
    return [
        host
        for host, leases in zip(hosts, answers, strict=True)
        if not isinstance(leases, RlxError) and _is_free(leases, kind, sweep.file.widths.get(host, 1))
    ]


def _leases_of(host: str) -> Leases:
    from rlx.hosts import locate, site_of
    from rlx.runs import query_leases

    site = site_of(host, "")
    with suppress(RlxError):
        site = locate(site_of(host), reading=True)[0]
    return query_leases(site.place, site.leases)


def _is_free(leases: Leases, kind: str, width: int) -> bool:
    held = {one.run_id for one in leases.held if one.kind == kind}
    waiting = [one for one in leases.waiting if one.kind == kind]
    return not waiting and len(held) < width
