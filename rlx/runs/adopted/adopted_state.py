"""Conclude the state of a run that rlx did not start from its log: who writes it, and whether it shows its end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rlx.errors import RlxError
from rlx.evidence import read_evidence
from rlx.model import RunState
from rlx.runs.adopted.log_copy import Copy, read_copy, refresh_all
from rlx.runs.adopted.log_source import read_source
from rlx.runs.duration import duration
from rlx.runs.judging.parser_cache import ParsedFiles
from rlx.runs.looking.observation import Observation, unreachable
from rlx.runs.manifest import read_manifest
from rlx.runs.run import RunPaths, RunRef


def observe_adopted(refs: Sequence[RunRef]) -> Mapping[str, Observation]:
    """The observations by id, after a look at each log that is followed. A silent host raises nothing."""
    looked = refresh_all(refs)
    return {
        ref.run_id: _observation(ref, *looked[ref.run_id]) if ref.run_id in looked else _imported(ref) for ref in refs
    }


def _imported(ref: RunRef) -> Observation:
    """Conclude from the logs alone, because nobody knows what became of the run's processes."""
    attempts, shows_end = RunPaths(ref.run_dir).attempts, _shows_its_end(ref)
    end = "shows its last step" if shows_end else "does not show its end"
    return Observation(
        run_id=ref.run_id,
        state=RunState.FINISHED if shows_end else RunState.LOST,
        attempt=len(attempts),
        log_bytes=RunPaths(ref.run_dir).log.stat().st_size,
        detail=f"imported from {read_source(ref.run_dir)}: it {end}; nobody recorded how the command ended",
    )


def unasked_adopted(refs: Sequence[RunRef], failure: RlxError) -> Mapping[str, Observation]:
    """Conclude from their copies, by id, where their host has just failed to answer."""
    return {
        ref.run_id: _observation(ref, read_copy(ref.run_dir), failure)
        if read_source(ref.run_dir).followed
        else _imported(ref)
        for ref in refs
    }


def _observation(ref: RunRef, copy: Copy, problem: RlxError | None) -> Observation:
    state, detail = _state(ref, copy)
    source, started_anew = read_source(ref.run_dir), copy.attempt - 1
    if started_anew:
        detail += f"; the log was overwritten {started_anew}×, what was there before is kept as an attempt"
    seen = Observation(
        run_id=ref.run_id,
        state=state,
        attempt=copy.attempt,
        members=copy.writers or 0,
        log_bytes=copy.extent.bytes + copy.left,
        seconds_since_log=copy.quiet_s + time.time() - (copy.as_of or time.time()),
        detail=f"adopted from {source}: {detail}",
    )
    if problem is None or copy.final:
        return seen
    return unreachable(seen, copy.as_of, problem, copy.silent_since or time.time())


def _state(ref: RunRef, copy: Copy) -> tuple[RunState, str]:
    """Running takes somebody who writes. Finished takes a log that shows its last step, since nothing recorded how the
    command ended; otherwise the run is lost, as any run that nobody lives of and that recorded no end."""
    if copy.is_written:
        ago = f"last written {duration(copy.quiet_s)} ago"
        return RunState.RUNNING, "a process has it open for writing" if copy.writers else f"{ago}, by whom is not seen"
    why = "the log is gone or another run's" if copy.gone else "nobody writes the log any more"
    if copy.writers is None and not copy.gone:
        why = f"last written {duration(copy.quiet_s)} ago; who would write it is not seen from there"
    if _shows_its_end(ref):
        return RunState.FINISHED, f"{why}, and it shows the last step; nobody recorded how the command ended"
    return RunState.LOST, f"{why}, and it does not show its end"


def _shows_its_end(ref: RunRef) -> bool:
    parsed = ParsedFiles(ref.run_dir.parents[2])  # RLX_HOME/adopted/runs/<run id>
    evidence, manifest = read_evidence(RunPaths(ref.run_dir).attempts, parsed), read_manifest(ref.run_dir)
    total = evidence.total_steps or (manifest.plan.expectations.total_steps if manifest else None)
    return total is not None and evidence.last_step >= total
