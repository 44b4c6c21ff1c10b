"""Two checkpoints: which they are, and whether they are compared item by item."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.compare import PairedItems, compare, outputs_to_read
from rlx.compare.proportions import TwoProportions
from rlx.evidence import ItemScores, JudgedRun, VerdictStatus
from rlx.model import RunState
from tests.compare.builders import LR_CONTROL as CONTROL
from tests.compare.builders import LR_TREATMENT as TREATMENT
from tests.compare.builders import METRIC, arm, only


def test_one_run_in_an_arm_is_two_checkpoints_with_one_seed(wording: SnapshotAssertion) -> None:
    contrast = only(compare(arm(CONTROL, [0.5, 0.6]), [arm(TREATMENT, [0.7, 0.75])[1:]]))
    assert isinstance(contrast.test, TwoProportions)
    assert [run_id.split("-2026")[0] for run_id in contrast.checkpoints] == ["gsm8k-baseline-s2", "gsm8k-fast-s2"]
    assert (contrast.difference, contrast.test.difference) == (pytest.approx(0.2), pytest.approx(0.15, abs=1e-3))
    assert contrast.sentences == wording
    assert [finding.id for finding in contrast.findings] == ["RLX905", "RLX912"]


def items(step: int, right: int, n: int = 200) -> ItemScores:
    return ItemScores(step, {f"item {index}": (float(index < right),) for index in range(n)})


@pytest.fixture
def pair() -> tuple[JudgedRun, JudgedRun]:
    (control,), (treatment,) = (
        arm(CONTROL, [0.7], planned_rows=200, rows=200),
        arm(TREATMENT, [0.75], rows=200, planned_rows=200),
    )
    return control, treatment


def test_two_checkpoints_are_paired_where_outputs_were_kept(
    pair: tuple[JudgedRun, JudgedRun], wording: SnapshotAssertion
) -> None:
    control, treatment = pair
    scores = {6: {control.run_id: items(6, 140), treatment.run_id: items(6, 150)}}
    paired = only(compare([control], [[treatment]], METRIC, scores))
    assert isinstance(paired.test, PairedItems)
    assert (paired.test.n, paired.test.better, paired.test.worse) == (200, 10, 0)
    assert paired.p_value == pytest.approx(0.0016, abs=5e-5)
    assert paired.sentences == wording
    unpaired = only(compare([control], [[treatment]], METRIC))
    assert isinstance(unpaired.test, TwoProportions)
    assert unpaired.p_value is not None and unpaired.p_value > 0.05


def test_outputs_of_another_step_are_not_used(pair: tuple[JudgedRun, JudgedRun]) -> None:
    control, treatment = pair
    scores = {0: {control.run_id: items(0, 20), treatment.run_id: items(0, 20)}}
    assert isinstance(only(compare([control], [[treatment]], METRIC, scores)).test, TwoProportions)


def test_the_outputs_of_all_runs_that_are_tested_are_asked_for(pair: tuple[JudgedRun, JudgedRun]) -> None:
    control, treatment = pair
    assert outputs_to_read([control], [[treatment]]) == (
        METRIC,
        {step: {control.run_id, treatment.run_id} for step in (0, 6)},
    )
    seeds = arm(TREATMENT, [0.7, 0.8])
    assert outputs_to_read([control], [seeds])[1] == {
        step: {run.run_id for run in (control, *seeds)} for step in (0, 6)
    }
    others = arm(CONTROL, [0.7, 0.8])
    assert outputs_to_read(others, [seeds])[1] == {step: {run.run_id for run in (*others, *seeds)} for step in (0, 6)}


@pytest.mark.parametrize("changes", [{"status": VerdictStatus.INVALID}, {"state": RunState.RUNNING}])
def test_outputs_of_runs_without_a_test_stay_where_they_are(
    pair: tuple[JudgedRun, JudgedRun], changes: dict[str, Any]
) -> None:
    assert outputs_to_read([pair[0]], [arm(TREATMENT, [0.7], **changes)])[1] == {}
