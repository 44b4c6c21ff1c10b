"""A run is judged beside its control, whose rejection says something only where both corrected alike."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rlx.evidence import JudgedRun, read_evidence
from rlx.model import Expectations, ExpectedCorrection, from_jsonable
from rlx.runs.judging.judge_runs import verdict_of
from rlx.runs.judging.parser_cache import ParsedFiles
from tests.compare.builders import RunBuilder
from tests.conftest import CASES
from tests.evidence.edits import REJECTED
from tests.evidence.test_cases import edited

REJECTION = ExpectedCorrection("token 2.0", "seq_mean_k1 0.999_1.001")


def recorded(name: str, edit: str, correction: ExpectedCorrection, folder: Path) -> JudgedRun:
    attempt = edited(CASES / "logs" / name, edit, folder / name)
    promised = from_jsonable(Expectations, json.loads((attempt / "expectations.json").read_text(encoding="utf-8")))
    run = RunBuilder(name, recipe={"aqn": {}}).judged()
    plan = replace(run.plan, expectations=replace(promised, correction=correction))
    return replace(run, plan=plan, evidence=read_evidence([attempt]))


def without_clean_steps(folder: Path) -> JudgedRun:
    return recorded("tiny-aqn", "rejection_without_clean_steps", REJECTION, folder)


@pytest.mark.parametrize(
    ("correction", "said"),
    [(REJECTION, "RLX650"), (ExpectedCorrection("token 2.0", "seq_mean_k1 0.9_1.1"), "RLX653")],
    ids=["alike", "otherwise"],
)
def test_a_control_counts_with_the_same_correction_only(
    correction: ExpectedCorrection, said: str, tmp_path: Path
) -> None:
    run = without_clean_steps(tmp_path)
    control = recorded("tiny-baseline", "rejection_takes_equally", correction, tmp_path)
    low = {step: {**values, REJECTED: 0.05} for step, values in control.evidence.metrics.items() if step}
    control = replace(control, evidence=replace(control.evidence, metrics=low))
    verdict = verdict_of(run.run_id, run.plan, run.evidence, run.state, ParsedFiles(tmp_path), control)
    assert [finding.id for finding in verdict.findings] == [said]
