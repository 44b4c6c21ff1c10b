"""Find the run whose terminal session a person means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.errors import RlxError

if TYPE_CHECKING:
    from rlx.api.selection import Run
    from rlx.runs import RunRef


def attachable(run: Run | None = None) -> RunRef:
    """Find the first of these runs, by default of the latest launch, that has not ended: an ended one has no session.

    Raises NoSuchRun, and RlxError where all have ended.
    """
    from rlx.api.selection import open_index, runs_or_latest
    from rlx.runs import take_snapshots

    index = open_index()
    refs = runs_or_latest(index, run)
    seen = take_snapshots(index, refs)
    alive = next((ref for ref in refs if not seen[ref.run_id].state.is_terminal), None)
    if alive is None:
        ended = ", ".join(ref.run_id for ref in refs)
        raise RlxError(
            f"nothing to attach to: {ended} {'has' if len(refs) == 1 else 'have'} ended",
            "read its log: rlx logs " + refs[0].run_id,
        )
    return alive
