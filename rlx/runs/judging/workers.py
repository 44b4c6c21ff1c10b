"""Find what is here of the other nodes of runs, beside the files of their heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.runs.copies.mirror import Mirrored, kept
from rlx.runs.run import RunPaths

if TYPE_CHECKING:
    from rlx.model import RunState
    from rlx.runs.index.run_index import Index
    from rlx.runs.run import RunRef


@dataclass(frozen=True, slots=True)
class Workers:
    """Of one run: the attempts on its other nodes, by `node 1 on a4`; which of them may not be here to their end."""

    nodes: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    unfinished: tuple[str, ...] = ()

    @property
    def attempts(self) -> tuple[Path, ...]:
        return tuple(attempt for attempts in self.nodes.values() for attempt in attempts)

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
        name = f"node {worker.node} on {worker.host}"
        unfinished = [name] if is_late or copy.lacks else []
        nodes = {**head.nodes, name: tuple(RunPaths(copy.run_dir).attempts)}
        found[worker.head_id] = Workers(nodes, (*head.unfinished, *unfinished))
    return found
