"""Mark runs with tags and a note, which stay on this machine and never enter a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.api.selection import Runs
    from rlx.runs import RunRef
    from rlx.runs.index.labels import RunLabel


def tag(
    runs: Runs, add: Iterable[str] = (), *, remove: Iterable[str] = (), note: str | None = None
) -> list[tuple[RunRef, RunLabel]]:
    """Add and remove tags of these runs and set their note, if it is not None; return what each has then.

    An empty note is removed; without anything to change the labels are only read. What belongs to a worker of a run of
    several nodes belongs to the run. Raises UsageError for what is no tag, NoSuchRun for an unknown name, RlxError if
    it cannot be kept.
    """
    from rlx.api.selection import open_index, runs_or_latest
    from rlx.runs.index.labels import NO_LABEL, Labels, checked_note, checked_tag

    wanted, unwanted = [checked_tag(word) for word in add], [checked_tag(word) for word in remove]
    text = None if note is None else checked_note(note)
    index = open_index()
    refs = _heads(runs_or_latest(index, runs))
    labels, ids = Labels(index.home), [ref.head_id for ref in refs]
    if wanted or unwanted or text is not None:
        labels.change(ids, add=wanted, remove=unwanted, note=text)
    known = labels.of(ids)
    return [(ref, known.get(ref.head_id, NO_LABEL)) for ref in refs]


def _heads(refs: Sequence[RunRef]) -> list[RunRef]:
    """One reference for each run, whichever of its nodes was named."""
    return list({ref.head_id: ref for ref in refs}.values())
