"""Delete data of old runs: copies on this machine, run directories and checkpoints on hosts."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from rlx.errors import RlxError, UsageError

if TYPE_CHECKING:
    from rlx.api.runs import Runs
    from rlx.runs import Index, RunRef, Snapshot
    from rlx.runs.copies.mirror_store import MirrorFolder
    from rlx.runs.index.hidden_runs import HiddenRun
    from rlx.runs.pruning import CheckpointSize, PruneAnswer

BY_ID = "only its id, typed in full, deletes it"
REGISTERED = f"evidence of a registered experiment: {BY_ID}"
_OTHERS = f"others launched it: {BY_ID}"
_RESUMABLE = f"it could go on from its last checkpoint: {BY_ID}, or rlx rm before"
_COPY_ONLY = "the copy that rlx made; the log itself stays where it is"
_LINKED = "its checkpoints are a link to another place, and stay"
_ONLY_COPY = f"the only copy: its host does not answer, or its run directory is gone; {BY_ID}"


@dataclass(frozen=True, slots=True)
class Prunable:
    """What would be deleted, what stays although it matches, and by host what an earlier call deleted in part.

    `nodes`: the runs whose hosts were asked for their sizes. `skewed`: by host, how far its clock is off, where an age
    was asked for; nothing of that host is deleted.
    """

    scope: Scope
    whats: frozenset[PrunedKind]
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
    and a run directory leaves a record. `dry_run`: nothing is deleted. Raises UsageError where nothing says which
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
    """Find what could be deleted. A host that does not answer costs its own runs only. Raises as `prune` does."""
    from rlx.runs.pruning import PruneAnswer, measure

    whats = _checked(what, runs, older_than_s, keep)
    scope = _scope(runs, older_than_s, keep, host)
    items, kept = find_mirrors(scope) if PrunedKind.MIRRORS in whats else ([], [])
    nodes = measured_nodes(scope, whats - {PrunedKind.MIRRORS})
    measured = measure(nodes) if nodes else PruneAnswer()
    found = find_runs(scope, nodes, measured) if PrunedKind.RUNS in whats else ([], [])
    whole = {item.run_id for item in found[0]}
    parts = find_checkpoints(scope, nodes, measured, whole) if PrunedKind.CHECKPOINTS in whats else ([], [])
    items, kept = [*items, *found[0], *parts[0]], [*kept, *found[1], *parts[1]]
    return Prunable(scope, whats, tuple(items), tuple(dict.fromkeys(kept)), measured.trash, tuple(nodes), scope.skewed)


def _checked(
    what: Collection[str], runs: Runs | None, older_than_s: float | None, keep: int | None
) -> frozenset[PrunedKind]:
    if unknown := [word for word in what if word not in [*PrunedKind]]:
        raise UsageError(
            f"{unknown[0]!r} is nothing to prune", f"one of {', '.join(PrunedKind)}, or several with commas"
        )
    if runs is None and older_than_s is None and keep is None:
        raise UsageError("prune which runs?", "say --older-than 30d, --keep 5, or name runs; --dry-run deletes nothing")
    if (keep or 0) < 0 or (older_than_s or 0) < 0:
        raise UsageError("a number of what stays, and an age, cannot be below 0", "rlx prune --older-than 30d --keep 5")
    return frozenset(PrunedKind(word) for word in what)


def _scope(runs: Runs | None, older_than_s: float | None, keep: int | None, host: str | None) -> Scope:
    from rlx.api.runs import host_names, names_of, open_index, runs_or_latest
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
    """Delete what was found; every host checks once more whether it may be deleted."""

    of = {what: [item for item in found.items if item.what is what] for what in PrunedKind}
    done, failures = (
        delete_mirrors(found.scope, of[PrunedKind.MIRRORS]) if PrunedKind.MIRRORS in found.whats else ([], [])
    )
    freed = sum(item.bytes for item in done)
    for what in (PrunedKind.CHECKPOINTS, PrunedKind.RUNS):
        if of[what] or (found.trash and what in found.whats):
            answer = delete_on_hosts(found.scope, what, found.nodes, of[what])
            freed += sum(answer.freed.values()) + sum(answer.swept.values())
            done += [item for item in of[what] if item.run_id in answer.freed and item.run_id not in answer.left]
            failures += [Kept(what, item.run_id, why) for item in of[what] if (why := answer.why_not(item.run_id))]
    return Pruned(found, tuple(done), freed, tuple(failures))


class PrunedKind(StrEnum):
    """A kind of data that can be deleted. mirrors: copies on this machine. runs: run directories. checkpoints:
    folders in those.
    """

    MIRRORS = "mirrors"
    RUNS = "runs"
    CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, slots=True)
class Item:
    """Something to delete. `names`: which folders, of checkpoints. `note`: a remark for the user."""

    what: PrunedKind
    run_id: str
    host: str
    bytes: int
    names: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that matches but stays, and why."""

    what: PrunedKind
    run_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Scope:
    """The runs that are meant, as they were `seen`.

    `keep`: the newest launches of each recipe that stay, or the newest checkpoints of each run. `ids`: the runs that
    were named by their whole ids, which is how to ask for what otherwise stays. `everything`: no run and no host was
    named.
    """

    index: Index
    refs: tuple[RunRef, ...]
    seen: Mapping[str, Snapshot]
    older_than_s: float | None
    keep: int | None
    ids: frozenset[str]
    everything: bool

    def candidates(self, what: PrunedKind) -> tuple[list[RunRef], list[Kept]]:
        """Return the runs that fit, those without and those with a reason why nothing may be deleted now."""
        newest, skewed = self._newest() if what is not PrunedKind.CHECKPOINTS else set(), self.skewed
        fit = [ref for ref in self.refs if ref.head_id not in newest and ref.host not in skewed and self._is_old(ref)]
        return self.split(what, fit, {ref.run_id: _why_not(self.seen[ref.run_id]) for ref in fit}, asked=())

    def split(
        self, what: PrunedKind, refs: Iterable[RunRef], reasons: Mapping[str, str], asked: Collection[str] | None = None
    ) -> tuple[list[RunRef], list[Kept]]:
        """Separate those that may be deleted, or that were named by their ids, from the others."""
        asked, free, kept = self.ids if asked is None else asked, [], []
        for ref in refs:
            if (why := reasons.get(ref.run_id)) and ref.head_id not in asked:
                kept.append(Kept(what, ref.run_id, why))
            else:
                free.append(ref)
        return free, kept

    def _newest(self) -> set[str]:
        """Return the ids of the runs of the newest launches of each name; the current ones of a script are one."""
        from rlx.runs.index.resolve import without_superseded

        removed = self.index.hidden_runs()
        shown = [ref for ref in self.refs if ref.run_id not in removed]
        current = {ref.run_id for ref in without_superseded(shown) if ref.group}
        launches: dict[str, dict[str, set[str]]] = {}
        for ref in sorted(shown, key=lambda ref: -ref.created):
            launch = ref.group_id if ref.run_id in current else ref.launch_id
            launches.setdefault(ref.name, {}).setdefault(launch, set()).add(ref.head_id)
        return {
            run_id for found in launches.values() for ids in list(found.values())[: self.keep or 0] for run_id in ids
        }

    def _is_old(self, ref: RunRef) -> bool:
        if self.older_than_s is None:
            return True
        seen = self.seen[ref.run_id].observation
        # Each by one clock: since the end and the last line by the host's, since the launch by this machine's.
        ages = (seen.seconds_since_end, seen.seconds_since_log, time.time() - ref.created)
        return min(age for age in ages if age is not None) >= self.older_than_s

    @property
    def skewed(self) -> dict[str, str]:
        """By host, how far its clock is off, where that keeps its runs: with a wrong clock, ages are not known."""
        if self.older_than_s is None:
            return {}
        seen = ((ref.host, self.seen[ref.run_id].observation) for ref in self.refs)
        return {host: found.clock.skew for host, found in seen if found.clock and found.clock.skew}

    def registered(self, refs: Sequence[RunRef]) -> dict[str, str]:
        """Those of these runs that belong to a registered experiment, with the words that keep them."""
        removed = self.index.hidden_runs()
        manifests = ((ref, self.seen[ref.run_id].manifest) for ref in refs if ref.run_id in self.seen)
        named = {ref.run_id for ref, manifest in manifests if manifest and manifest.plan.registration}
        named |= {ref.run_id for ref in refs if ref.head_id in removed and removed[ref.head_id].experiment}
        return dict.fromkeys(named, REGISTERED)


def _why_not(sight: Snapshot) -> str:
    from rlx.model import RunState

    if sight.state is RunState.UNREACHABLE:
        return sight.observation.detail or "its host does not answer"
    return "" if sight.state.is_terminal else f"it is {sight.state.value}"


def could_go_on(sight: Snapshot) -> bool:
    """Tell whether it ended before its time, so that it may be begun again from a checkpoint."""
    from rlx.model import RunState

    return sight.state in (RunState.FAILED, RunState.STOPPED, RunState.LOST)


def checkpoints_to_delete(found: PruneAnswer, run_id: str, keep: int | None) -> list[CheckpointSize]:
    """All but the newest `keep` whole ones, by default the last; with 0, which has to be asked for, none stays."""
    own = sorted((each for each in found.checkpoints if each.run_id == run_id), key=lambda each: each.step)
    last = found.latest.get(run_id)
    whole = [each for each in own if last is None or each.step <= last]
    stay = whole[max(0, len(whole) - (1 if keep is None else keep)) :]
    return [each for each in own if each not in stay]


def measured_nodes(scope: Scope, whats: Collection[PrunedKind]) -> list[RunRef]:
    """Return the runs of which something may be deleted, with their parts on other nodes, without those whose files are
    gone.
    """
    gone = {run_id for run_id, each in scope.index.hidden_runs().items() if each.deleted}
    found = {ref.run_id: ref for what in whats for ref in scope.candidates(what)[0] if ref.run_id not in gone}
    return [*found.values(), *scope.index.workers([*found.values()])]


def find_runs(scope: Scope, nodes: Sequence[RunRef], measured: PruneAnswer) -> tuple[list[Item], list[Kept]]:
    """Find run directories that may be deleted."""
    from rlx.runs.importing.log_source import is_adopted

    heads, kept = _heads(scope, PrunedKind.RUNS, nodes)
    reasons = _resumable(scope, heads, measured) | _of_others(scope, heads) | scope.registered(heads)
    free, more = scope.split(PrunedKind.RUNS, heads, reasons)
    parts = [*free, *scope.index.workers(free)]
    items = [
        Item(
            PrunedKind.RUNS, ref.run_id, ref.host, measured.runs[ref.run_id], note=_COPY_ONLY if is_adopted(ref) else ""
        )
        for ref in parts
        if ref.run_id in measured.runs
    ]
    return items, [*kept, *more, *_refused(PrunedKind.RUNS, parts, measured)]


def find_checkpoints(
    scope: Scope, nodes: Sequence[RunRef], measured: PruneAnswer, without: Collection[str]
) -> tuple[list[Item], list[Kept]]:
    """Find checkpoints that may be deleted, of runs that stay, without those in `without`."""
    heads, kept = _heads(scope, PrunedKind.CHECKPOINTS, nodes)
    heads = [ref for ref in heads if ref.run_id not in without]
    free, more = scope.split(PrunedKind.CHECKPOINTS, heads, _of_others(scope, heads))
    parts = [*free, *scope.index.workers(free)]
    chosen = [(ref, checkpoints_to_delete(measured, ref.run_id, scope.keep)) for ref in parts]
    items = [
        Item(
            PrunedKind.CHECKPOINTS,
            ref.run_id,
            ref.host,
            sum(each.bytes for each in found),
            tuple(e.name for e in found),
        )
        for ref, found in chosen
        if found
    ]
    linked = [Kept(PrunedKind.CHECKPOINTS, ref.run_id, _LINKED) for ref in parts if ref.run_id in measured.linked]
    return items, [*kept, *more, *linked, *_refused(PrunedKind.CHECKPOINTS, parts, measured)]


def _heads(scope: Scope, what: PrunedKind, nodes: Sequence[RunRef]) -> tuple[list[RunRef], list[Kept]]:
    fit, kept = scope.candidates(what)
    return [ref for ref in fit if ref in nodes], kept


def _resumable(scope: Scope, refs: Sequence[RunRef], measured: PruneAnswer) -> dict[str, str]:
    saved, removed = {each.run_id for each in measured.checkpoints}, scope.index.hidden_runs()
    ids = [ref.run_id for ref in refs if ref.run_id in saved and could_go_on(scope.seen[ref.run_id])]
    return {run_id: _RESUMABLE for run_id in ids if run_id not in removed}


def _of_others(scope: Scope, refs: Sequence[RunRef]) -> dict[str, str]:
    from rlx.api.runs import is_own

    manifests = {ref.run_id: scope.seen[ref.run_id].manifest for ref in refs}
    by = {run_id: manifest.submitted_by if manifest else {} for run_id, manifest in manifests.items()}
    return {ref.run_id: _OTHERS for ref in refs if not is_own(scope.index, ref, by[ref.run_id])}


def _refused(what: PrunedKind, refs: Sequence[RunRef], answer: PruneAnswer) -> list[Kept]:
    return [Kept(what, ref.run_id, answer.refused[ref.run_id]) for ref in refs if ref.run_id in answer.refused]


def delete_on_hosts(scope: Scope, what: PrunedKind, nodes: Sequence[RunRef], items: Sequence[Item]) -> PruneAnswer:
    """Delete these, and what earlier calls left in the trash of the hosts of `nodes`."""
    from rlx.runs.pruning import delete_checkpoints, delete_runs

    if what is PrunedKind.CHECKPOINTS:
        return delete_checkpoints(nodes, {item.run_id: item.names for item in items})
    hidden_runs = _hidden_runs(scope, [ref for ref in nodes if ref.run_id in {item.run_id for item in items}])
    answer = delete_runs(nodes, hidden_runs)
    heads = [hidden_runs[ref.run_id] for ref in nodes if ref.run_id in answer.freed and not ref.node]
    scope.index.bury(heads, on_host=True)
    return answer


def _hidden_runs(scope: Scope, refs: Sequence[RunRef]) -> Mapping[str, HiddenRun]:
    """Judge the runs while their files are there; on other hosts that also brings their evidence here."""
    from rlx.runs.pruning import hidden_runs_of, of_nodes
    from rlx.runs.status.judged_snapshots import judged_snapshots

    heads = [ref for ref in refs if not ref.node]
    found = hidden_runs_of(scope.index, judged_snapshots(scope.index, heads), "", deleted=True)
    return of_nodes(found, [ref for ref in refs if ref.node])


def find_mirrors(scope: Scope) -> tuple[list[Item], list[Kept]]:
    """Find copies that a query of their hosts restores, and copies of runs that are no longer in the index."""
    folders = _folders(scope)
    fit, kept = scope.candidates(PrunedKind.MIRRORS)
    nodes = [ref for ref in (*fit, *scope.index.workers(fit)) if ref.run_id in folders]
    there = _still_there(nodes)
    reasons = {ref.run_id: _ONLY_COPY for ref in nodes if ref.run_id not in there} | scope.registered(nodes)
    free, only = scope.split(PrunedKind.MIRRORS, nodes, reasons)
    items = [Item(PrunedKind.MIRRORS, ref.run_id, ref.host, folders[ref.run_id].bytes) for ref in free]
    kept = [*(each for each in kept if each.run_id in folders), *only]
    for found in _not_indexed(scope, folders) if scope.everything else ():
        items += [found] if isinstance(found, Item) else []
        kept += [found] if isinstance(found, Kept) else []
    return items, kept


def delete_mirrors(scope: Scope, items: Sequence[Item]) -> tuple[list[Item], list[Kept]]:
    """Delete these copies; return those that are gone, and why others are not."""
    from rlx.runs.copies.mirror import folder_of
    from rlx.runs.copies.mirror_store import delete_mirror, empty_trash

    folders, done, failures = _folders(scope), list[Item](), list[Kept]()
    for item in items:
        try:
            if item.run_id in folders:
                delete_mirror(folders[item.run_id])
            done.append(item)
        except RlxError as problem:
            failures.append(Kept(PrunedKind.MIRRORS, item.run_id, problem.message))
    empty_trash(folder_of(scope.index))
    return done, failures


def _folders(scope: Scope) -> Mapping[str, MirrorFolder]:
    from rlx.runs.copies.mirror import folder_of
    from rlx.runs.copies.mirror_store import mirror_folders

    return {folder.run_id: folder for folder in mirror_folders(folder_of(scope.index))}


def _still_there(refs: Sequence[RunRef]) -> set[str]:
    """Return the runs whose directories their hosts have, so that the copies can be made again."""
    from rlx.runs.status.host_report import request_reports

    answers = request_reports(refs).answers
    return {run_id for answer in answers for run_id, facts in answer.items() if not facts.is_removed}


def _not_indexed(scope: Scope, folders: Mapping[str, MirrorFolder]) -> Iterator[Item | Kept]:
    """Yield copies of runs that are no longer in the index: no command finds them."""
    from rlx.runs import read_manifest

    known, oldest = {ref.run_id for ref in scope.index.nodes()}, time.time() - (scope.older_than_s or 0.0)
    for run_id, folder in folders.items():
        if run_id in known or folder.written > oldest:
            continue
        manifest = read_manifest(folder.path)
        if manifest is not None and manifest.plan.registration is not None:
            yield Kept(PrunedKind.MIRRORS, run_id, REGISTERED)
        else:
            yield Item(PrunedKind.MIRRORS, run_id, "?", folder.bytes, note="of a run that is not known here")
