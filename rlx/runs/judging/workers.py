"""Find what is here of the other nodes of runs, beside the files of their heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.runs.copies.mirror import Mirrored, kept
from rlx.runs.run import RunPaths

if TYPE_CHECKING:
    from rlx.plan import RunState
    from rlx.runs.index.run_index import Index
    from rlx.runs.run import RunRef


@dataclass(frozen=True, slots=True)
class Workers:
    """Of one run: the attempts on its other nodes, and the names of nodes whose files may not be here to their end."""

    attempts: tuple[Path, ...] = ()
    unfinished: tuple[str, ...] = ()

    def lacks(self, state: RunState) -> str:
        """Say what of a run in that state is not here; empty if nothing."""
        if not (state.is_terminal and self.unfinished):
            return ""
        return f"the run has ended, and the records of {', '.join(self.unfinished)} are not here to their end"


def workers_of(index: Index, refs: Sequence[RunRef], copies: Mapping[str, Mirrored]) -> Mapping[str, Workers]:
    """Find them by the ids of the heads. `copies` are of the last look; what it did not bring is taken as it is here.

    A node writes nothing that counts after its head has ended, so that a copy of that time is whole.
    """
    workers = index.workers(refs)
    copies = {**kept(index, [worker for worker in workers if worker.run_id not in copies]), **copies}
    found = {ref.run_id: Workers() for ref in refs}
    for worker in workers:
        copy, head = copies[worker.run_id], found[worker.head_id]
        is_late = copy.problem is not None and copy.end is None
        name = [f"node {worker.node} on {worker.host}"] if is_late or copy.lacks else []
        attempts = (*head.attempts, *RunPaths(copy.run_dir).attempts)
        found[worker.head_id] = Workers(attempts, (*head.unfinished, *name))
    return found
