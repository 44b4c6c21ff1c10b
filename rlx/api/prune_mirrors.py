"""Find and delete the copies that this machine has of runs on other hosts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rlx.api.prune_choice import BY_ID, REGISTERED, Item, Kept, Scope, What
from rlx.errors import RlxError

if TYPE_CHECKING:
    from rlx.runs import RunRef
    from rlx.runs.copies.mirror_store import MirrorFolder

_ONLY_COPY = f"the only copy: its host does not answer, or its run directory is gone; {BY_ID}"


def find_mirrors(scope: Scope) -> tuple[list[Item], list[Kept]]:
    """Copies that a look at their hosts makes again, and those of runs that nothing here knows any more."""
    folders = _folders(scope)
    fit, kept = scope.candidates(What.MIRRORS)
    nodes = [ref for ref in (*fit, *scope.index.workers(fit)) if ref.run_id in folders]
    there = _still_there(nodes)
    reasons = {ref.run_id: _ONLY_COPY for ref in nodes if ref.run_id not in there} | scope.registered(nodes)
    free, only = scope.split(What.MIRRORS, nodes, reasons)
    items = [Item(What.MIRRORS, ref.run_id, ref.host, folders[ref.run_id].bytes) for ref in free]
    kept = [*(each for each in kept if each.run_id in folders), *only]
    for found in _of_nobody(scope, folders) if scope.everything else ():
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
            failures.append(Kept(What.MIRRORS, item.run_id, problem.message))
    empty_trash(folder_of(scope.index))
    return done, failures


def _folders(scope: Scope) -> Mapping[str, MirrorFolder]:
    from rlx.runs.copies.mirror import folder_of
    from rlx.runs.copies.mirror_store import mirror_folders

    return {folder.run_id: folder for folder in mirror_folders(folder_of(scope.index))}


def _still_there(refs: Sequence[RunRef]) -> set[str]:
    """The runs whose directories their hosts have, so that the copies can be made again."""
    from rlx.runs.status.host_report import request_reports

    answers = request_reports(refs).answers
    return {run_id for answer in answers for run_id, facts in answer.items() if not facts.is_removed}


def _of_nobody(scope: Scope, folders: Mapping[str, MirrorFolder]) -> Iterator[Item | Kept]:
    """Copies of runs that are in no index any more: no command finds them."""
    from rlx.runs import read_manifest

    known, oldest = {ref.run_id for ref in scope.index.nodes()}, time.time() - (scope.older_than_s or 0.0)
    for run_id, folder in folders.items():
        if run_id in known or folder.written > oldest:
            continue
        manifest = read_manifest(folder.path)
        if manifest is not None and manifest.plan.registration is not None:
            yield Kept(What.MIRRORS, run_id, REGISTERED)
        else:
            yield Item(What.MIRRORS, run_id, "?", folder.bytes, note="of a run that is not known here")
