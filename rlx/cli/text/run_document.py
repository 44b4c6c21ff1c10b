"""Runs and verdicts as the JSON of every command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlx.model.launch_plan import script_words

if TYPE_CHECKING:
    from rlx.evidence import Verdict
    from rlx.runs.status.snapshots import Snapshot


def row_document(row: Snapshot) -> Mapping[str, Any]:
    """Return a run as the JSON of `status` and `wait`; times are seconds and UTC epochs."""
    from rlx.evidence.verdict import outlook

    seen, verdict = row.observation, row.verdict
    given = script_words(row.manifest.plan) if row.manifest else {}
    return {
        "run_id": row.ref.run_id,
        "launch_id": row.ref.launch_id,
        "name": row.ref.name,
        "arm": row.ref.arm,
        "seed": row.ref.seed,
        "given": [*given.values()],
        "host": row.ref.host,
        "destination": row.ref.place.destination,
        "container": row.container,
        "submitted_by": row.submitted_by,
        "moved_from": row.moved_from,
        "run_dir": row.ref.shown_dir,
        "created": row.ref.created,
        "state": row.state,
        "detail": seen.detail,
        "last_known": seen.last_known,
        "last_seen_epoch": seen.last_seen_epoch,
        "unreachable_since": seen.unreachable_since,
        "exit_code": seen.exit_code,
        "queued_behind": seen.queued_behind,
        "attempt": seen.attempt,
        "processes": seen.members,
        "started_epoch": seen.started_epoch,
        "ended_epoch": seen.ended_epoch,
        "log_bytes": seen.log_bytes,
        "steps_done": row.steps_done,
        "steps_total": row.steps_total,
        "step_seconds": row.step_seconds,
        "seconds_left": row.seconds_left,
        "metric": row.metric,
        "last_validation": {"step": row.validation[0], "value": row.validation[1]} if row.validation else None,
        "sample": row.sample,
        "sample_age": row.sample_age,
        "tags": row.label.tags,
        "note": row.label.note or None,
        "removed": row.removed,
        "noise": verdict.noise,
        "outlook": outlook(verdict, row.state)._asdict(),
        "verdict": verdict_document(verdict),
    }


def verdict_document(verdict: Verdict) -> Mapping[str, Any]:
    """Return a verdict as the JSON of every command."""
    return {
        "status": verdict.status,
        "dissent": verdict.dissent,
        "sentence": verdict.sentence,
        "findings": verdict.findings,
        "rules": verdict.rules,
        "traces": verdict.traces,
        "waived": verdict.waived,
    }
