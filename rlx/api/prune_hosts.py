"""Find and delete run directories and checkpoints where they lie. Every host looks once more before it deletes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from rlx.api.prune_choice import BY_ID, Item, Kept, Scope, What, checkpoints_to_delete, could_go_on

if TYPE_CHECKING:
    from rlx.runs import RunRef
    from rlx.runs.index.tombstones import Tombstone
    from rlx.runs.pruning import PruneAnswer

_OTHERS = f"others launched it: {BY_ID}"
_RESUMABLE = f"it could go on from its last checkpoint: {BY_ID}, or rlx rm before"
_COPY_ONLY = "the copy that rlx made; the log itself stays where it is"
_LINKED = "its checkpoints are a link to another place, and stay"


def measured_nodes(scope: Scope, whats: Collection[What]) -> list[RunRef]:
    """The runs of which something may go, with their parts on other nodes, without those whose files are gone."""
    gone = {run_id for run_id, each in scope.index.tombstones().items() if each.deleted}
    found = {ref.run_id: ref for what in whats for ref in scope.candidates(what)[0] if ref.run_id not in gone}
    return [*found.values(), *scope.index.workers([*found.values()])]


def find_runs(scope: Scope, nodes: Sequence[RunRef], measured: PruneAnswer) -> tuple[list[Item], list[Kept]]:
    """Run directories that may go."""
    from rlx.runs.importing.log_source import is_adopted

    heads, kept = _heads(scope, What.RUNS, nodes)
    reasons = _resumable(scope, heads, measured) | _of_others(scope, heads) | scope.registered(heads)
    free, more = scope.split(What.RUNS, heads, reasons)
    parts = [*free, *scope.index.workers(free)]
    items = [
        Item(What.RUNS, ref.run_id, ref.host, measured.runs[ref.run_id], note=_COPY_ONLY if is_adopted(ref) else "")
        for ref in parts
        if ref.run_id in measured.runs
    ]
    return items, [*kept, *more, *_refused(What.RUNS, parts, measured)]


def find_checkpoints(
    scope: Scope, nodes: Sequence[RunRef], measured: PruneAnswer, without: Collection[str]
) -> tuple[list[Item], list[Kept]]:
    """Checkpoints that may go, of runs that stay: `without` those that go as a whole."""
    heads, kept = _heads(scope, What.CHECKPOINTS, nodes)
    heads = [ref for ref in heads if ref.run_id not in without]
    free, more = scope.split(What.CHECKPOINTS, heads, _of_others(scope, heads))
    parts = [*free, *scope.index.workers(free)]
    chosen = [(ref, checkpoints_to_delete(measured, ref.run_id, scope.keep)) for ref in parts]
    items = [
        Item(What.CHECKPOINTS, ref.run_id, ref.host, sum(each.bytes for each in found), tuple(e.name for e in found))
        for ref, found in chosen
        if found
    ]
    linked = [Kept(What.CHECKPOINTS, ref.run_id, _LINKED) for ref in parts if ref.run_id in measured.linked]
    return items, [*kept, *more, *linked, *_refused(What.CHECKPOINTS, parts, measured)]


def _heads(scope: Scope, what: What, nodes: Sequence[RunRef]) -> tuple[list[RunRef], list[Kept]]:
    fit, kept = scope.candidates(what)
    return [ref for ref in fit if ref in nodes], kept


def _resumable(scope: Scope, refs: Sequence[RunRef], measured: PruneAnswer) -> dict[str, str]:
    saved, removed = {each.run_id for each in measured.checkpoints}, scope.index.tombstones()
    ids = [ref.run_id for ref in refs if ref.run_id in saved and could_go_on(scope.seen[ref.run_id])]
    return {run_id: _RESUMABLE for run_id in ids if run_id not in removed}


def _of_others(scope: Scope, refs: Sequence[RunRef]) -> dict[str, str]:
    from rlx.api.removing import is_own

    manifests = {ref.run_id: scope.seen[ref.run_id].manifest for ref in refs}
    by = {run_id: manifest.submitted_by if manifest else {} for run_id, manifest in manifests.items()}
    return {ref.run_id: _OTHERS for ref in refs if not is_own(scope.index, ref, by[ref.run_id])}


def _refused(what: What, refs: Sequence[RunRef], answer: PruneAnswer) -> list[Kept]:
    return [Kept(what, ref.run_id, answer.refused[ref.run_id]) for ref in refs if ref.run_id in answer.refused]


def delete_on_hosts(scope: Scope, what: What, nodes: Sequence[RunRef], items: Sequence[Item]) -> PruneAnswer:
    """Delete these, and what earlier calls left in the trash of the hosts of `nodes`."""
    from rlx.runs.pruning import delete_checkpoints, delete_runs

    if what is What.CHECKPOINTS:
        return delete_checkpoints(nodes, {item.run_id: item.names for item in items})
    tombstones = _tombstones(scope, [ref for ref in nodes if ref.run_id in {item.run_id for item in items}])
    answer = delete_runs(nodes, tombstones)
    heads = [tombstones[ref.run_id] for ref in nodes if ref.run_id in answer.freed and not ref.node]
    scope.index.bury(heads, on_host=True)
    return answer


def _tombstones(scope: Scope, refs: Sequence[RunRef]) -> Mapping[str, Tombstone]:
    """Judge the runs while their files are there; on other hosts that also brings their evidence here."""
    from rlx.runs.pruning import of_nodes, tombstones_of
    from rlx.runs.status.judged_snapshots import judged_snapshots

    heads = [ref for ref in refs if not ref.node]
    found = tombstones_of(scope.index, judged_snapshots(scope.index, heads), "", deleted=True)
    return of_nodes(found, [ref for ref in refs if ref.node])
