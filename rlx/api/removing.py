"""Hide runs that were launched by mistake from names, and let names mean them again. Nothing is deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.errors import NoSuchRun, RlxError, UsageError

if TYPE_CHECKING:
    from rlx.api.selection import Runs
    from rlx.runs import Index, RunRef
    from rlx.runs.index.tombstones import Tombstone
    from rlx.runs.status.snapshots import Snapshot


@dataclass(frozen=True, slots=True)
class Removed:
    """A run that names no longer mean. `here_only`: why its host does not know of it, "" where it does."""

    ref: RunRef
    tombstone: Tombstone
    here_only: str = ""


def remove(runs: Runs, *, reason: str = "", force: bool = False) -> list[Removed]:
    """Hide these runs from names: no arm, run name or launch means them any more, only their ids.

    Their files stay, and every comparison of their experiment names them as removed. A run that others launched is
    hidden on this machine alone. `force`: also a run of which nobody knows whether it has ended, since its host does
    not answer. Raises NoSuchRun for an unknown name, UsageError, before anything is hidden, for a run that has not
    ended.
    """
    from rlx.api.selection import open_index, runs_or_latest
    from rlx.runs.index.labels import checked_note
    from rlx.runs.pruning import tombstones_of
    from rlx.runs.status.judged_snapshots import judged_snapshots

    text, index = checked_note(reason), open_index()
    refs = _heads(index, runs_or_latest(index, runs))
    rows = judged_snapshots(index, refs)
    _check_ended(rows, force=force)
    tombstones = tombstones_of(index, rows, text)
    index.bury([*tombstones.values()], on_host=False)
    own = [row for row in rows if is_own(index, row.ref, row.submitted_by)]
    unknown = _tell_hosts(index, own, tombstones)
    others = {row.ref.run_id: _OTHERS for row in rows if row not in own}
    why = {**unknown, **others}
    return [Removed(row.ref, tombstones[row.ref.run_id], why.get(row.ref.run_id, "")) for row in rows]


_OTHERS = "others launched it, and still see it"


def restore(runs: Runs) -> tuple[RunRef, ...]:
    """Let names mean removed runs again: the inverse of `remove`. Returns the runs.

    Raises NoSuchRun where no removed run is called so, RlxError where its files were deleted, or its host does not
    answer: it would be hidden again by the next look at that host.
    """
    from rlx.api.selection import names_of, open_index
    from rlx.runs.index.resolve import meant_by, removed_runs
    from rlx.runs.pruning import unbury_on_hosts

    index = open_index()
    removed = removed_runs(index)
    if not removed:
        raise NoSuchRun("no run was removed", "rlx rm RUN removes one")
    refs = meant_by(names_of(runs), [*removed.values()], removed)
    tombstones = index.tombstones()
    if gone := [ref.run_id for ref in refs if tombstones[ref.run_id].deleted]:
        raise RlxError(f"{', '.join(gone)}: its files were deleted", "what is gone cannot be taken back")
    hidden_there = [ref for ref in refs if ref.run_id in index.buried_on_hosts()]
    answer = unbury_on_hosts(hidden_there)
    back = [ref for ref in refs if ref not in hidden_there or ref.run_id in answer.done]
    index.restore([ref.run_id for ref in back])
    if failed := [f"{ref.run_id} stays removed: {answer.refused.get(ref.run_id)}" for ref in refs if ref not in back]:
        raise RlxError("\n".join(failed), "its host has to be asked: type the same again when it answers")
    return refs


def removal_notes(index: Index, refs: Iterable[RunRef]) -> Iterator[str]:
    """A sentence for each of these runs that somebody removed."""
    tombstones = index.tombstones()
    yield from (found.sentence for ref in refs if (found := tombstones.get(ref.head_id)))


def is_own(index: Index, ref: RunRef, submitted_by: Mapping[str, str]) -> bool:
    """Tell whether this user launched it from this machine, or took its log in here."""
    from rlx.runs.manifest import submitter

    me = submitter()
    return (
        ref.place.is_local
        or ref.launch_id in index.own_launches()
        or all(submitted_by.get(key) == value for key, value in me.items())
    )


def _heads(index: Index, refs: Sequence[RunRef]) -> list[RunRef]:
    """One reference for each run, whichever of its nodes was named."""
    heads = {ref.run_id: ref for ref in index.runs()}
    return list({ref.head_id: heads.get(ref.head_id, ref) for ref in refs}.values())


def _check_ended(rows: Sequence[Snapshot], *, force: bool) -> None:
    from rlx.model import RunState

    silent = [row for row in rows if row.state is RunState.UNREACHABLE]
    going = [row for row in rows if not row.state.is_terminal and row not in silent]
    if going:
        words = ", ".join(f"{row.ref.run_id} is {row.state.value}" for row in going)
        raise UsageError(f"nothing was removed: {words}", f"stop it first: rlx stop {going[0].ref.run_id}")
    if silent and not force:
        words = "; ".join(f"{row.ref.run_id}: {row.observation.detail}" for row in silent)
        raise UsageError(f"nothing was removed: {words}", "--force removes runs whose host does not answer")


def _tell_hosts(index: Index, rows: Sequence[Snapshot], tombstones: Mapping[str, Tombstone]) -> dict[str, str]:
    """Keep the tombstones beside the runs, too, so that other machines see them. Returns why that failed, by run."""
    from rlx.runs.pruning import bury_on_hosts

    refs = [row.ref for row in rows]
    answer = bury_on_hosts(refs, tombstones)
    index.bury([tombstones[run_id] for run_id in answer.done if run_id in tombstones], on_host=True)
    return {ref.run_id: answer.refused.get(ref.run_id, "no answer") for ref in refs if ref.run_id not in answer.done}
