"""What has become of a run that rlx did not start, by its log alone: who writes it, and whether it shows its end."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rlx.errors import RlxError
from rlx.evidence import read_evidence
from rlx.plan import RunState
from rlx.runs.adopted import Copy, read_source, refresh_all
from rlx.runs.duration import duration, moment
from rlx.runs.manifest import read_manifest
from rlx.runs.observe import Observation
from rlx.runs.run import RunPaths, RunRef

_QUIET_S = 900.0
"""Where nobody can be seen writing, and somebody may: a log that is older than this is not being written. A step with
a long rollout takes minutes."""


def observe_adopted(refs: Sequence[RunRef]) -> Mapping[str, Observation]:
    """The observations by id, after a look at each log. A host that does not answer raises nothing."""
    looked = refresh_all(refs)
    return {ref.run_id: _observation(ref, *looked[ref.run_id]) for ref in refs}


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
    return _unanswered(seen, copy, problem) if problem and not copy.final else seen


def _state(ref: RunRef, copy: Copy) -> tuple[RunState, str]:
    """Running takes somebody who writes. Finished takes a log that shows its last step, since nothing recorded how the
    command ended; otherwise the run is lost, as any run that nobody lives of and that recorded no end."""
    if copy.writers:
        return RunState.RUNNING, "being written"
    if copy.writers is None and not copy.gone and copy.quiet_s < _QUIET_S:
        return RunState.RUNNING, f"last written {duration(copy.quiet_s)} ago, by whom this user may not see"
    why = "the log is gone" if copy.gone else "nobody writes the log any more"
    if copy.writers is None and not copy.gone:
        why = f"last written {duration(copy.quiet_s)} ago; this user may not see who would write it"
    if _shows_its_end(ref):
        return RunState.FINISHED, f"{why}, and it shows the last step; nobody recorded how the command ended"
    return RunState.LOST, f"{why}, and it does not show its end"


def _shows_its_end(ref: RunRef) -> bool:
    evidence, manifest = read_evidence(RunPaths(ref.run_dir).attempts), read_manifest(ref.run_dir)
    total = evidence.total_steps or (manifest.plan.expectations.total_steps if manifest else None)
    return total is not None and evidence.last_step >= total


def _unanswered(seen: Observation, copy: Copy, problem: RlxError) -> Observation:
    now = time.time()
    since = copy.silent_since or now
    reason = (problem.message.splitlines() or [""])[0]
    known = f"last known: {seen.state}, {duration(now - copy.as_of)} ago" if copy.as_of else "never seen"
    return Observation(
        run_id=seen.run_id,
        state=RunState.UNREACHABLE,
        attempt=seen.attempt,
        log_bytes=seen.log_bytes,
        detail=f"unreachable since {moment(since)} ({reason}); {known}",
        last_known=seen.state if copy.as_of else None,
        last_seen_epoch=copy.as_of,
        unreachable_since=since,
    )
