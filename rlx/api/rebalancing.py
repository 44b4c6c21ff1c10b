"""Move blocks of a sweep that wait to hosts of it that are free, for commands that wait for runs.

A block moves as a whole, and only while none of its runs has begun. What cannot be settled now, because a host does not
answer, is settled at a later query. `rlx status` only reads: it names what would move, and the command that moves it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.errors import RlxError
from rlx.model import RunState

if TYPE_CHECKING:
    from rlx.api.runs import Tell
    from rlx.api.sweeping import ExcludedHost, SweepFile, SweepHost
    from rlx.model import LaunchPlan
    from rlx.recipe import ResolvedRecipe
    from rlx.runs import Index, Leases, RunRef
    from rlx.runs.index.tables import Move
    from rlx.runs.status.snapshots import Snapshot

_PAUSE_S = 10.0
_MAY_MOVE = (RunState.QUEUED, RunState.UNREACHABLE)
_RECIPE_FILE = "recipe.yaml"


class Rebalancing:
    """Rebalance query after query, but ask the hosts of a sweep who has their devices only now and then."""

    def __init__(self, index: Index, tell: Tell) -> None:
        self._index, self._tell = index, tell
        self._told: set[str] = set()
        self._due = 0.0

    def run_once(self, rows: Sequence[Snapshot]) -> frozenset[str]:
        """Move what waits of these runs, where a host of their sweep is free. Returns the ids of those that moved."""
        from rlx.api.sweeping import only_one

        launches = self._launches(rows)
        if not launches:
            return frozenset()
        with only_one(self._index.home, wait=False) as is_ours:
            moved = [run_id for sweep in self._sweeps(launches, rows) if is_ours for run_id in self._move_blocks(sweep)]
        # What was moved is queried again at once, and may leave more to do.
        self._due = time.monotonic() + (0.0 if moved else _PAUSE_S)
        return frozenset(moved)

    def suggest(self, rows: Sequence[Snapshot]) -> None:
        """Name what `run_once` would try to move of these runs, once each, and change nothing here or on a host."""
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
        """Return the launches with runs that may move; none until the pause is over, and where no sweep was ever
        launched.
        """
        from rlx.api.sweeping import sweep_folder

        launches = dict.fromkeys(row.ref.launch_id for row in rows if row.state in _MAY_MOVE)
        if not launches or time.monotonic() < self._due or not sweep_folder(self._index.home).is_dir():
            return []
        return [*launches]

    def _sweeps(self, launches: Sequence[str], rows: Sequence[Snapshot]) -> Iterator[SweepBlocks]:
        by_id = {row.ref.run_id: row for row in rows}
        for launch_id in launches:
            if sweep := blocks_of(self._index, launch_id, by_id):
                yield sweep

    def _move_blocks(self, sweep: SweepBlocks) -> list[str]:
        moved: list[str] = []
        for move in _open_moves(sweep):
            moved += self._tried(sweep, sweep.block(move.seed), move)
        for block, target in _choices(sweep):
            moved += self._tried(sweep, block, target)
        return moved

    def _tried(self, sweep: SweepBlocks, block: Block, what: Move | str) -> list[str]:
        """Return the ids of the runs that were moved. An obstacle is reported once."""
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
        self._tell(f"rlx: moved seed {block.seed} ({block.arms}) {way}: none of its runs had started")
        return list(block.ids)

    def _tell_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._tell(line)


def _open_moves(sweep: SweepBlocks) -> list[Move]:
    """Return the moves that have come to no end."""
    from rlx.runs.index.tables import MovePhase

    return [move for move in sweep.moves if move.phase is not MovePhase.DONE]


def _planned(sweep: SweepBlocks, block: Block, hosts: Sequence[str]) -> PlannedBlock:
    """Return the block on the host that finishes it first. Raises RlxError where it fits on none."""
    from rlx.runs.launching.shipment import pick_secrets

    found, left_out = sweep.at_hosts(block, hosts)
    if not found:
        raise RlxError("; ".join(f"{one.host}: {one.why}" for one in left_out))
    best = min(found, key=lambda one: (one.host.capacity.ahead + len(block.runs)) / one.host.capacity.width)
    for plan in best.plans:
        pick_secrets(plan, os.environ)
    return best


def _choices(sweep: SweepBlocks) -> list[tuple[Block, str]]:
    """Return the blocks to move, each with a host of the sweep that is free: of the longest queue, what would wait
    longest.
    """
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


@dataclass(frozen=True, slots=True)
class Block:
    """The runs of one seed, each with its position in the launch; `rows`: those of them that were queried."""

    seed: int
    runs: tuple[tuple[int, RunRef], ...]
    rows: tuple[Snapshot, ...]

    @property
    def refs(self) -> tuple[RunRef, ...]:
        """Return its runs in the order of launch."""
        return tuple(ref for _, ref in self.runs)

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of its runs."""
        return tuple(ref.run_id for ref in self.refs)

    @property
    def arms(self) -> str:
        """Return its arms as text."""
        return ", ".join(ref.arm for ref in self.refs)

    @property
    def host(self) -> str:
        """Return the host of its runs."""
        return self.refs[0].host

    @property
    def waits(self) -> bool:
        """Tell whether its host has just said of all of its runs that they wait."""
        waiting = [row for row in self.rows if row.state is RunState.QUEUED and row.observation.holder_live]
        return len(waiting) == len(self.runs)

    @property
    def ahead(self) -> int:
        """The runs before its first one."""
        return min(row.observation.queued_behind for row in self.rows)

    @property
    def is_answered(self) -> bool:
        """Tell whether its host answers."""
        return any(row.state is not RunState.UNREACHABLE for row in self.rows)

    @property
    def is_seen(self) -> bool:
        """Tell whether its host has a run of it."""
        return any(row.observation.holder_live or row.observation.started_epoch is not None for row in self.rows)


@dataclass(frozen=True, slots=True)
class SweepBlocks:
    """A sweep with its blocks in the order of their launch, and the moves so far."""

    launch_id: str
    file: SweepFile
    blocks: tuple[Block, ...]
    moves: tuple[Move, ...]

    def block(self, seed: int) -> Block:
        """Return the block of this seed."""
        return next(block for block in self.blocks if block.seed == seed)

    def moves_of(self, seed: int) -> tuple[Move, ...]:
        """Return the moves of one block, oldest first."""
        return tuple(move for move in self.moves if move.seed == seed)

    def at_hosts(self, block: Block, hosts: Sequence[str]) -> tuple[list[PlannedBlock], list[ExcludedHost]]:
        """Plan the block for each of these hosts, all at once. Raises UsageError."""
        from rlx.api.hosts import named_target
        from rlx.api.sweeping import look_at_hosts

        targets = [named_target(host, self.file.container, self.file.devices) for host in hosts]
        own = [self.file.plans[block.seed, ref.arm] for ref in block.refs]
        with tempfile.TemporaryDirectory(prefix="rlx-sweep-") as folder:
            recipes = [self._recipe(plan, Path(folder, str(number))) for number, plan in enumerate(own)]
            found, left_out = look_at_hosts(targets, recipes, recipes, strict=False)
            return [PlannedBlock(one, tuple(_as_sent(one, recipes, own))) for one in found], left_out

    def _recipe(self, plan: LaunchPlan, folder: Path) -> ResolvedRecipe:
        from rlx.api.launching import recipe_of
        from rlx.errors import UsageError
        from rlx.recipe.schema import Aqn

        recipe = recipe_of(plan, folder)
        if recipe is None:
            raise UsageError(f"{plan.run_name}: has no recipe")
        watched = self.file.watched.get(plan.arm)
        return replace(recipe, watched=Aqn.model_validate(watched) if watched else None)


@dataclass(frozen=True, slots=True)
class PlannedBlock:
    """A block, planned for a host."""

    host: SweepHost
    plans: tuple[LaunchPlan, ...]


def _as_sent(host: SweepHost, recipes: Sequence[ResolvedRecipe], own: Sequence[LaunchPlan]) -> list[LaunchPlan]:
    """Return the plans with the recipe as it was launched, where the new ones name the files that were unpacked for
    them.
    """
    from rlx.model.launch_plan import seal

    return [
        _restored(planned.plan, before, seal) for planned, before in zip(host.planned_runs(recipes), own, strict=True)
    ]


def _restored(plan: LaunchPlan, before: LaunchPlan, seal: Callable[[LaunchPlan], LaunchPlan]) -> LaunchPlan:
    kept = {file.path: file for file in before.files if file.path == _RECIPE_FILE}
    files = tuple(kept.get(file.path, file) for file in plan.files)
    return seal(replace(plan, recipe=before.recipe, registration=before.registration, files=files))


def blocks_of(index: Index, launch_id: str, rows: Mapping[str, Snapshot]) -> SweepBlocks | None:
    """Return the sweep of that launch; None for any other, and for one that another machine launched."""
    from rlx.api.sweeping import read_sweep

    asked = index.request_digest(launch_id)
    file = read_sweep(index.home, asked) if asked else None
    if file is None:
        return None
    runs: dict[int, list[tuple[int, RunRef]]] = {}
    for position, ref in enumerate(index.launch_runs(launch_id)):
        runs.setdefault(ref.seed, []).append((position, ref))
    blocks = [
        Block(seed, tuple(own), tuple(rows[ref.run_id] for _, ref in own if ref.run_id in rows))
        for seed, own in runs.items()
    ]
    return SweepBlocks(launch_id, file, tuple(blocks), index.moves(launch_id))
