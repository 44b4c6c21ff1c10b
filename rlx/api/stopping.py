"""Stop runs, with everything that belongs to them, and look whether it is gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlx.api.selection import Runs
    from rlx.errors import RlxError
    from rlx.runs import Index, RunRef, Snapshot, Stopped


@dataclass(frozen=True, slots=True)
class StoppedRuns:
    """By run id: what was seen of each run `before`, what ended and what is left of those that were stopped, and why
    the others were not."""

    before: Mapping[str, Snapshot]
    stopped: Mapping[str, Stopped]
    failures: Mapping[str, RlxError]


def stop(runs: Runs, *, grace_s: float = 10.0) -> StoppedRuns:
    """Stop these runs, all hosts at once; of a run of several nodes, all nodes.

    Between asking (SIGTERM) and forcing (SIGKILL) lie `grace_s` seconds. A run that waits for devices never starts;
    one that has ended keeps its state, but what it left behind ends. One that fails keeps no other from stopping.
    Raises NoSuchRun for an unknown name, before anything is stopped.
    """
    from rlx.api.selection import open_index

    index = open_index()
    return stop_refs(index, with_workers(index, runs), grace_s)


def stop_refs(index: Index, refs: Sequence[RunRef], grace_s: float) -> StoppedRuns:
    """Stop exactly these."""
    from rlx.runs import stop_runs, take_snapshots

    before = take_snapshots(index, refs)
    result = stop_runs(refs, before, grace_s)
    return StoppedRuns(before, result.stopped, result.failures)


def with_workers(index: Index, runs: Runs) -> tuple[RunRef, ...]:
    """Find the runs that are named, and their parts on other nodes. Raises NoSuchRun."""
    from rlx.api.selection import runs_or_latest
    from rlx.runs.run import one_a_job

    refs = runs_or_latest(index, runs)
    return tuple(one_a_job(dict.fromkeys((*refs, *index.workers(refs)))))


def not_ended(index: Index) -> list[RunRef]:
    """Find every run that has not ended and that rlx started: of an adopted one it knows the log, not the processes."""
    from rlx.runs import take_snapshots
    from rlx.runs.importing.log_source import is_adopted
    from rlx.runs.run import one_a_job

    refs = index.nodes()
    seen = take_snapshots(index, refs)
    return one_a_job([ref for ref in refs if not seen[ref.run_id].state.is_terminal and not is_adopted(ref)])
