"""Judge snapshots: how far a run is, how fast, what it measured, and whether its evidence supports the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.errors import RlxError
from rlx.evidence import Evidence, JudgedRun, core_metric, series, training_steps
from rlx.evidence.metrics import latest_seconds, step_times, usual_seconds
from rlx.evidence.reading.usage_file import last_sample
from rlx.evidence.verdict import without_evidence
from rlx.runs.index.labels import NO_LABEL, Labels, RunLabel
from rlx.runs.judging.judge_runs import judge_snapshots, unjudged
from rlx.runs.run import RunPaths
from rlx.runs.status.snapshots import Files, Snapshot, take_snapshots

if TYPE_CHECKING:
    from rlx.runs.index.run_index import Index
    from rlx.runs.run import RunRef
    from rlx.runs.status.snapshots import HostBackoff

_LONGEST_S = 1e10
_WITHOUT_MANIFEST = (
    "its manifest.json is missing, damaged or of another version of rlx, so its expectations are not known"
)


def judged_snapshots(index: Index, refs: Sequence[RunRef], backoff: HostBackoff | None = None) -> list[Snapshot]:
    """Return the snapshots of these runs in their order, judged; one round trip, to all their hosts at once.

    With `backoff`, hosts that failed to answer a moment ago are skipped. A run that was removed, or whose manifest is
    damaged, has a snapshot without numbers.
    """
    snapshots = take_snapshots(index, refs, Files.NEW, backoff)
    judged = judge_snapshots(index, snapshots)
    heads = [snapshot.ref.head_id for snapshot in snapshots.values()]
    try:
        labels = Labels(index.home).of(heads)
    except RlxError as error:
        labels = dict.fromkeys(heads, RunLabel(note=f"tags and notes cannot be read: {error.message}"))
    removed = index.hidden_runs()
    rows = [_with_result(snapshot, judged.get(run_id)) for run_id, snapshot in snapshots.items()]
    return [
        replace(row, label=labels.get(row.ref.head_id, NO_LABEL), removed=removed.get(row.ref.head_id)) for row in rows
    ]


def _with_result(snapshot: Snapshot, judged: JudgedRun | RlxError | None) -> Snapshot:
    """Add the result of one run, or the reason why it has none: a damaged run does not affect the others."""
    if judged is None or snapshot.ref.node:
        return _without_verdict(snapshot)
    if isinstance(judged, RlxError):
        return _without_verdict(snapshot, judged.message)
    try:
        return _with_numbers(snapshot, judged)
    except (RlxError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - evidence is read lazily, and was written by others
        return _without_verdict(snapshot, unjudged(snapshot.ref, error).message)


def _without_verdict(snapshot: Snapshot, problem: str = "") -> Snapshot:
    ref, why = snapshot.ref, problem or snapshot.observation.detail or snapshot.copy.lacks or _WITHOUT_MANIFEST
    if ref.node:
        why = f"node {ref.node} of {ref.head_id}, whose verdict is about all of it"
    return replace(snapshot, evidence=Evidence(), verdict=without_evidence(why))


def _with_numbers(snapshot: Snapshot, judged: JudgedRun) -> Snapshot:
    evidence, plan, is_over = judged.evidence, judged.plan, snapshot.state.is_terminal
    done = max(training_steps(evidence), default=0)
    total = evidence.total_steps or plan.expectations.total_steps
    times = [*step_times(evidence).values()]
    pace = latest_seconds(times)
    metric = core_metric(evidence, plan.expectations)
    values = series(evidence, metric) if metric else {}
    left = (total - done) * pace if pace is not None and total is not None and not is_over else None
    return replace(
        snapshot,
        evidence=evidence,
        verdict=judged.verdict,
        steps_done=done,
        steps_total=total,
        step_seconds=usual_seconds(times),
        seconds_left=left if left is not None and left < _LONGEST_S else None,
        metric=metric,
        validation=(max(values), values[max(values)]) if values else None,
        container=plan.site.container,
        expectations=plan.expectations,
        submitted_by=judged.submitted_by,
        as_of=judged.as_of,
        registration=plan.registration,
        sample=None if is_over else last_sample(RunPaths(snapshot.copy.run_dir).latest),
        devices=plan.devices,
        device_list=plan.device_list,
        moved_from=snapshot.manifest.moved if snapshot.manifest else (),
        retry=plan.recipe.get("retry"),
    )
