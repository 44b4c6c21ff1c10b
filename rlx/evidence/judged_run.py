"""A run, its plan, its evidence and its verdict in one value: what comparisons and reports work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlx.evidence.values import Evidence
from rlx.evidence.verdict import Verdict
from rlx.plan import LaunchPlan, RunState


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """`provenance`: versions and data digests as the run found them on its host; empty if it could not say."""

    run_id: str
    name: str
    arm: str
    seed: int
    plan: LaunchPlan
    evidence: Evidence
    verdict: Verdict
    state: RunState
    provenance: Mapping[str, Any]
