"""The blocks of a sweep as a look has found them, and what it takes to plan one for another host."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.model import RunState

_RECIPE_FILE = "recipe.yaml"

if TYPE_CHECKING:
    from rlx.api.sweep_file import SweepFile
    from rlx.api.sweep_hosts import LeftOut, SweepHost
    from rlx.model import LaunchPlan
    from rlx.recipe import ResolvedRecipe
    from rlx.runs import Index, RunRef
    from rlx.runs.index.tables import Move
    from rlx.runs.status.snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class Block:
    """The runs of one seed, each with its position in the launch; `rows`: those of them that were looked at."""

    seed: int
    runs: tuple[tuple[int, RunRef], ...]
    rows: tuple[Snapshot, ...]

    @property
    def refs(self) -> tuple[RunRef, ...]:
        return tuple(ref for _, ref in self.runs)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(ref.run_id for ref in self.refs)

    @property
    def arms(self) -> str:
        """Its arms as a person writes them."""
        return ", ".join(ref.arm for ref in self.refs)

    @property
    def host(self) -> str:
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
        return next(block for block in self.blocks if block.seed == seed)

    def moves_of(self, seed: int) -> tuple[Move, ...]:
        """The moves of one block, oldest first."""
        return tuple(move for move in self.moves if move.seed == seed)

    def at_hosts(self, block: Block, hosts: Sequence[str]) -> tuple[list[PlannedBlock], list[LeftOut]]:
        """Plan the block for each of these hosts, all at once. Raises UsageError."""
        from rlx.api.sweep_hosts import look_at_hosts
        from rlx.api.target import named_target

        targets = [named_target(host, self.file.container, self.file.devices) for host in hosts]
        own = [self.file.plans[block.seed, ref.arm] for ref in block.refs]
        with tempfile.TemporaryDirectory(prefix="rlx-sweep-") as folder:
            recipes = [self._recipe(plan, Path(folder, str(number))) for number, plan in enumerate(own)]
            found, left_out = look_at_hosts(targets, recipes, recipes, strict=False)
            return [PlannedBlock(one, tuple(_as_sent(one, recipes, own))) for one in found], left_out

    def _recipe(self, plan: LaunchPlan, folder: Path) -> ResolvedRecipe:
        from rlx.api.saved_plans import recipe_of
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
    """The plans with the recipe as it was launched, where the new ones name the files that were unpacked for them."""
    from rlx.model.launch_plan import seal

    return [_restored(draft.plan, before, seal) for draft, before in zip(host.drafts(recipes), own, strict=True)]


def _restored(plan: LaunchPlan, before: LaunchPlan, seal: Callable[[LaunchPlan], LaunchPlan]) -> LaunchPlan:
    kept = {file.path: file for file in before.files if file.path == _RECIPE_FILE}
    files = tuple(kept.get(file.path, file) for file in plan.files)
    return seal(replace(plan, recipe=before.recipe, registration=before.registration, files=files))


def blocks_of(index: Index, launch_id: str, rows: Mapping[str, Snapshot]) -> SweepBlocks | None:
    """The sweep of that launch; None for any other, and for one that was launched from elsewhere."""
    from rlx.api.sweep_file import read_sweep

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
