"""A run with digests and a probe that went on from a checkpoint: each attempt is held against its own records alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlx.evidence import judge, read_evidence
from rlx.model import RunState
from tests.evidence.resumed_runs import begun, recorded, resumed
from tests.recorded import recorded_expectations

ARMS = ("aqn", "baseline")


@pytest.mark.parametrize(("last", "after"), [(14, 10), (12, 5), (11, 10), (17, 15)])
@pytest.mark.parametrize("arm", ARMS)
def test_a_resumed_run_is_not_accused(arm: str, last: int, after: int, tmp_path: Path) -> None:
    evidence = read_evidence([begun(arm, tmp_path / "1", last), resumed(arm, tmp_path / "2", after)])
    expectations = recorded_expectations(json.loads((recorded(arm) / "expectations.json").read_text(encoding="utf-8")))
    verdict = judge(evidence, expectations, RunState.FINISHED, arm=arm)
    assert verdict.status == "valid", verdict.sentence
    assert not [finding.id for finding in verdict.findings if finding.id.startswith("RLX68")]
