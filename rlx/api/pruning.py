"""Delete what old runs left: copies on this machine, run directories and checkpoints on hosts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rlx.api.prune_choice import Item, Kept, Scope, What
from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.api.selection import Runs
    from rlx.runs import RunRef


@dataclass(frozen=True, slots=True)
class Prunable:
    """What would be deleted, what stays although it fits, and by host what an earlier call left half deleted.

    `nodes`: the runs whose hosts were asked for their sizes. `skewed`: by host, how far its clock is off, where an age
    was asked for; nothing of that host is deleted.
    """

    scope: Scope
    whats: frozenset[What]
    items: tuple[Item, ...]
    kept: tuple[Kept, ...]
    trash: Mapping[str, int] = field(default_factory=dict)
    nodes: tuple[RunRef, ...] = ()
    skewed: Mapping[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """What all of it takes."""
        return sum(item.bytes for item in self.items) + sum(self.trash.values())


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was found, and what came of it. `freed`: bytes. `failures`: what stays, and why."""

    found: Prunable
    deleted: tuple[Item, ...] = ()
    freed: int = 0
    failures: tuple[Kept, ...] = ()


def prune(
    runs: Runs | None = None,
    *,
    what: Collection[str] = ("mirrors",),
    older_than_s: float | None = None,
    keep: int | None = None,
    host: str | None = None,
    dry_run: bool = False,
) -> Pruned:
    """Delete `mirrors` (copies on this machine), `runs` (run directories) or `checkpoints` of runs that have ended.

    `older_than_s`: only of runs that ended as long ago, by the clock of their host; one that is off by more than a
    minute keeps all of its runs, and is in `found.skewed`. `keep`: nothing of so many newest launches of each recipe,
    or not so many newest checkpoints of each run; the last one stays, unless it is 0. Only what rlx made is deleted,
    and a run directory leaves a tombstone. `dry_run`: nothing is deleted. Raises UsageError where nothing says which
    runs are meant, NoSuchRun for an unknown name.
    """
    found = find_prunable(runs, what=what, older_than_s=older_than_s, keep=keep, host=host)
    return Pruned(found) if dry_run else delete_found(found)


def find_prunable(
    runs: Runs | None = None,
    *,
    what: Collection[str] = ("mirrors",),
    older_than_s: float | None = None,
    keep: int | None = None,
    host: str | None = None,
) -> Prunable:
    """Look what could be deleted. A host that does not answer costs its own runs only. Raises as `prune` does."""
    from rlx.api.prune_hosts import find_checkpoints, find_runs, measured_nodes
    from rlx.api.prune_mirrors import find_mirrors
    from rlx.runs.pruning import PruneAnswer, measure

    whats = _checked(what, runs, older_than_s, keep)
    scope = _scope(runs, older_than_s, keep, host)
    items, kept = find_mirrors(scope) if What.MIRRORS in whats else ([], [])
    nodes = measured_nodes(scope, whats - {What.MIRRORS})
    measured = measure(nodes) if nodes else PruneAnswer()
    found = find_runs(scope, nodes, measured) if What.RUNS in whats else ([], [])
    whole = {item.run_id for item in found[0]}
    parts = find_checkpoints(scope, nodes, measured, whole) if What.CHECKPOINTS in whats else ([], [])
    items, kept = [*items, *found[0], *parts[0]], [*kept, *found[1], *parts[1]]
    return Prunable(scope, whats, tuple(items), tuple(dict.fromkeys(kept)), measured.trash, tuple(nodes), scope.skewed)


def _checked(what: Collection[str], runs: Runs | None, older_than_s: float | None, keep: int | None) -> frozenset[What]:
    if unknown := [word for word in what if word not in [*What]]:
        raise UsageError(f"{unknown[0]!r} is nothing to prune", f"one of {', '.join(What)}, or several with commas")
    if runs is None and older_than_s is None and keep is None:
        raise UsageError("prune which runs?", "say --older-than 30d, --keep 5, or name runs; --dry-run deletes nothing")
    if (keep or 0) < 0 or (older_than_s or 0) < 0:
        raise UsageError("a number of what stays, and an age, cannot be below 0", "rlx prune --older-than 30d --keep 5")
    return frozenset(What(word) for word in what)


def _scope(runs: Runs | None, older_than_s: float | None, keep: int | None, host: str | None) -> Scope:
    from rlx.api.selection import host_names, names_of, open_index, runs_or_latest
    from rlx.runs import take_snapshots

    index, names = open_index(), names_of(runs) if runs is not None else []
    named = runs_or_latest(index, names) if runs is not None else index.runs()
    hosts = None if host is None else host_names(host)
    refs = tuple(ref for ref in named if not ref.node and (hosts is None or ref.host in hosts))
    ids = frozenset(ref.run_id for ref in refs if ref.run_id in names)
    return Scope(
        index, refs, take_snapshots(index, refs), older_than_s, keep, ids, everything=runs is None and host is None
    )


def delete_found(found: Prunable) -> Pruned:
    """Delete what was found; every host looks once more whether it may go."""
    from rlx.api.prune_hosts import delete_on_hosts
    from rlx.api.prune_mirrors import delete_mirrors

    of = {what: [item for item in found.items if item.what is what] for what in What}
    done, failures = delete_mirrors(found.scope, of[What.MIRRORS]) if What.MIRRORS in found.whats else ([], [])
    freed = sum(item.bytes for item in done)
    for what in (What.CHECKPOINTS, What.RUNS):
        if of[what] or (found.trash and what in found.whats):
            answer = delete_on_hosts(found.scope, what, found.nodes, of[what])
            freed += sum(answer.freed.values()) + sum(answer.swept.values())
            done += [item for item in of[what] if item.run_id in answer.freed and item.run_id not in answer.left]
            failures += [Kept(what, item.run_id, why) for item in of[what] if (why := answer.why_not(item.run_id))]
    return Pruned(found, tuple(done), freed, tuple(failures))
