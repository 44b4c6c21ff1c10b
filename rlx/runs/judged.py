"""A run with everything that is known of it: what was planned, what the log shows, and the verdict of both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlx.evidence import PROBABILITY_GAP, JudgedRun, VerdictStatus, judge, read_evidence, series
from rlx.runs.index import Index
from rlx.runs.manifest import Manifest, find_manifests, read_manifests
from rlx.runs.observe import Observation, observe
from rlx.runs.run import RunPaths, RunRef


def judge_runs(index: Index, refs: Sequence[RunRef]) -> list[JudgedRun]:
    """The runs in the order given; one round trip a host for their states and one for their manifests."""
    observations, manifests = observe(index, refs), read_manifests(refs)
    return [_judge(ref, observations[ref.run_id], manifests[ref.run_id]) for ref in refs]


def judge_observed(refs: Sequence[RunRef], observations: Mapping[str, Observation]) -> Mapping[str, JudgedRun]:
    """The runs by id whose state is already known; without those that have no manifest that can be read."""
    manifests = find_manifests(refs)
    return {
        ref.run_id: _judge(ref, observations[ref.run_id], manifests[ref.run_id])
        for ref in refs
        if ref.run_id in manifests
    }


def judge_beside(control: JudgedRun, run: JudgedRun) -> JudgedRun:
    """The run judged again with its control at hand, which sharpens the second witness; unchanged without one."""
    if control.plan.expectations.noise is not None or control.verdict.status is VerdictStatus.INVALID:
        return run
    gap = series(control.evidence, PROBABILITY_GAP)
    verdict = judge(run.evidence, run.plan.expectations, run.state, arm=run.arm, control_gap=gap or None)
    return replace(run, verdict=verdict)


def _judge(ref: RunRef, observation: Observation, manifest: Manifest) -> JudgedRun:
    plan, paths = manifest.plan, RunPaths(ref.run_dir)
    evidence = read_evidence(paths.attempts)
    return JudgedRun(
        run_id=ref.run_id,
        name=plan.run_name,
        arm=plan.arm,
        seed=plan.seed,
        plan=plan,
        evidence=evidence,
        verdict=judge(evidence, plan.expectations, observation.state, arm=plan.arm),
        state=observation.state,
        provenance={**_found_at_start(paths), "files": manifest.digests},
    )


def _found_at_start(paths: RunPaths) -> Mapping[str, Any]:
    """What the latest attempt found on its host; nothing if it ended before it could write that down."""
    try:
        found = json.loads((paths.latest / "provenance.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
