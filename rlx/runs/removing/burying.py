"""Write the tombstones of runs: what each was, how it stood, when it was removed and by whom."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rlx.evidence.outlook import outlook
from rlx.runs.copies.mirror import kept
from rlx.runs.index.promises import manifest_digest
from rlx.runs.index.tombstones import Tombstone
from rlx.runs.manifest import manifest_text, parse_manifest, submitter
from rlx.runs.run import RunRef

if TYPE_CHECKING:
    from rlx.runs.index.run_index import Index
    from rlx.runs.looking.overview import Overview


def tombstones_of(
    index: Index, rows: Sequence[Overview], reason: str, *, deleted: bool = False
) -> Mapping[str, Tombstone]:
    """One for each of these runs by its id, as they stand now; what was written earlier of one stays its beginning."""
    by, now, before = "{user}@{machine}".format(**submitter()), time.time(), index.tombstones()
    copies = kept(index, [row.ref for row in rows])
    return {
        row.ref.run_id: _tombstone(row, manifest_text(copies[row.ref.run_id].run_dir), (now, by, reason, deleted))
        if (old := before.get(row.ref.run_id)) is None
        else _again(old, now, by, reason, deleted=deleted)
        for row in rows
    }


def _tombstone(row: Overview, text: str, end: tuple[float, str, str, bool]) -> Tombstone:
    ref, manifest = row.ref, parse_manifest(text)
    return Tombstone(
        ref.run_id,
        ref.launch_id,
        ref.name,
        ref.arm,
        ref.seed,
        ref.host,
        ref.node,
        manifest.position if manifest else 0,
        ref.created,
        manifest_digest(text) if manifest else "",
        row.state.value,
        outlook(row.verdict, row.state).word,
        row.registration.digest if row.registration else "",
        *end,
    )


def _again(old: Tombstone, now: float, by: str, reason: str, *, deleted: bool) -> Tombstone:
    """What a run was is said once: after its files are gone nobody could say it better."""
    from dataclasses import replace

    return replace(old, removed=now, by=by, reason=reason or old.reason, deleted=deleted or old.deleted)


def of_nodes(tombstones: Mapping[str, Tombstone], workers: Sequence[RunRef]) -> Mapping[str, Tombstone]:
    """Those of the runs, and the same for the parts of these runs on other nodes."""
    from dataclasses import replace

    own = {
        ref.run_id: replace(tombstones[ref.head_id], run_id=ref.run_id, node=ref.node, host=ref.host, manifest="")
        for ref in workers
    }
    return {**tombstones, **own}
