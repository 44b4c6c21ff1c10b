"""A run, its plan, its evidence and its verdict in one value: what comparisons and reports work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlx.evidence.reading.run_usage import NO_USAGE, RunUsage
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.verdict import Verdict
from rlx.model import LaunchPlan, RunState


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """`provenance`: versions and data digests as the run found them on its host; empty if it could not say.

    `submitted_by`: user, machine and version of rlx. `as_of`: when the evidence was read on the run's host, in seconds
    since 1970; None: now. `usage`: what the devices of its head did, and `usage_of_others` those of its other
    nodes, by their names; read where runs are compared only. `latest`: the folder of its latest attempt here.
    """

    run_id: str
    name: str
    arm: str
    seed: int
    plan: LaunchPlan
    evidence: Evidence
    verdict: Verdict
    state: RunState
    provenance: Mapping[str, Any]
    submitted_by: Mapping[str, str] = field(default_factory=dict)
    as_of: float | None = None
    usage: RunUsage = NO_USAGE
    usage_of_others: Mapping[str, RunUsage] = field(default_factory=dict)
    latest: Path | None = field(default=None, compare=False)
