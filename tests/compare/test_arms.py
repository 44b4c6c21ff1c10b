"""Arms of several seeds: what is said of the treatment, and when it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.cli.text.compare_text import lines
from rlx.compare import Comparison, WelchSeeds, compare
from rlx.evidence import VerdictStatus
from rlx.model import Finding, RunState, Severity
from tests.compare.builders import LR_CONTROL as CONTROL
from tests.compare.builders import LR_TREATMENT as TREATMENT
from tests.compare.builders import arm, only


def ids(comparison: Comparison) -> dict[str, Severity]:
    return {finding.id: finding.severity for finding in only(comparison).findings}


def test_several_seeds_speak_of_the_treatment(wording: SnapshotAssertion) -> None:
    contrast = only(compare(arm(CONTROL, [0.68, 0.69, 0.70]), [arm(TREATMENT, [0.70, 0.705, 0.72])]))
    assert isinstance(contrast.test, WelchSeeds)
    assert contrast.checkpoints == ()
    assert (contrast.step, contrast.difference) == (6, pytest.approx(0.0183, abs=1e-4))
    assert contrast.p_value == pytest.approx(0.093, abs=5e-4)
    assert contrast.sentences == wording
    assert not contrast.findings


def test_difference_that_the_seeds_do_not_explain(wording: SnapshotAssertion) -> None:
    contrast = only(compare(arm(CONTROL, [0.68, 0.69, 0.70]), [arm(TREATMENT, [0.75, 0.755, 0.76])]))
    assert (contrast.p_value, contrast.difference) == (pytest.approx(0.0023, abs=5e-5), pytest.approx(0.065))
    assert contrast.sentences == wording


def test_arm_is_the_mean_of_its_runs_where_all_have_a_value() -> None:
    control = [
        replace(CONTROL, seed=1, series={0: 0.1, 3: 0.5, 6: 0.6}).judged(),
        replace(CONTROL, seed=2, series={0: 0.2, 6: 0.8}).judged(),
    ]
    comparison = compare(control, [arm(TREATMENT, [0.7, 0.8])])
    assert comparison.control.series == pytest.approx({0: 0.15, 6: 0.7})
    assert comparison.control.spread[6] == pytest.approx(0.1414, abs=1e-4)
    assert [row.step for row in comparison.steps] == [0, 3, 6]
    assert comparison.steps[1].values == (None, None)
    assert [run.label for run in comparison.runs] == ["baseline-s1", "baseline-s2", "fast-s1", "fast-s2"]
    assert [each.label for each in comparison.arms] == ["baseline", "fast"]


def test_last_step_is_common_to_all_runs() -> None:
    control = arm(CONTROL, [0.68, 0.69])
    treatment = arm(TREATMENT, [0.70, 0.71])
    treatment[1] = replace(TREATMENT, seed=2, series={0: 0.2, 5: 0.9}).judged()
    assert only(compare(control, [treatment])).step == 0


def test_numbers_of_seeds_may_differ() -> None:
    contrast = only(compare(arm(CONTROL, [0.68, 0.69, 0.70, 0.685]), [arm(TREATMENT, [0.70, 0.72])]))
    assert isinstance(contrast.test, WelchSeeds)
    assert (contrast.test.control_runs, contrast.test.treatment_runs) == (4, 2)


def test_other_seeds_are_no_difference_between_arms_of_several() -> None:
    treatment = [replace(TREATMENT, seed=seed, series={6: 0.7 + seed / 1000}).judged() for seed in (7, 8)]
    contrast = only(compare(arm(CONTROL, [0.68, 0.69]), [treatment]))
    assert [item.key for item in contrast.differences] == ["train.lr"]


@pytest.mark.parametrize("status", [VerdictStatus.INVALID, VerdictStatus.INCOMPLETE])
def test_one_struck_seed_strikes_the_arm(status: VerdictStatus, wording: SnapshotAssertion) -> None:
    treatment = arm(TREATMENT, [0.70, 0.705, 0.72])
    treatment[1] = replace(TREATMENT, seed=2, series={6: 0.705}, status=status).judged()
    comparison = compare(arm(CONTROL, [0.68, 0.69, 0.70]), [treatment])
    assert comparison.treatments[0].is_excluded and not comparison.reportable
    assert only(comparison).test is None and "fast-s2" in only(comparison).no_test
    assert only(comparison).sentences == wording
    (finding,) = only(comparison).findings
    assert finding.id == "RLX909"
    assert "1 of 3" in finding.message and finding.message == wording
    assert "gsm8k-fast-s1-20261120-120000-abcd,gsm8k-fast-s3" in finding.fix


def test_unfinished_seed_makes_the_comparison_interim(wording: SnapshotAssertion) -> None:
    treatment = arm(TREATMENT, [0.70, 0.705])
    treatment[1] = replace(TREATMENT, seed=2, series={0: 0.1}, state=RunState.RUNNING).judged()
    comparison = compare(arm(CONTROL, [0.68, 0.69]), [treatment])
    assert comparison.interim
    assert only(comparison).p_value is None and only(comparison).sentences == wording


def test_one_seed_twice_is_not_two_samples() -> None:
    runs = [replace(CONTROL, run_id=f"run-{name}", series={6: 0.7 + i / 100}) for i, name in enumerate("ab")]
    comparison = compare([run.judged() for run in runs], [arm(TREATMENT, [0.7, 0.8])])
    assert ids(comparison) == {"RLX908": Severity.ERROR, "RLX911": Severity.WARNING}
    assert "run-a, run-b" in only(comparison).findings[0].message
    assert only(comparison).test is None and not comparison.reportable


def test_seeds_of_an_arm_differ_in_nothing_else(wording: SnapshotAssertion) -> None:
    older = replace(CONTROL, seed=2, series={6: 0.7}, provenance={"packages": {"verl": "0.7.1"}}).judged()
    newer = replace(CONTROL, seed=1, series={6: 0.69}, provenance={"packages": {"verl": "0.9.1"}}).judged()
    comparison = compare([newer, older], [arm(TREATMENT, [0.7, 0.8])])
    (finding,) = [each for each in only(comparison).findings if each.id == "RLX907"]
    assert finding.severity is Severity.WARNING
    assert "verl: 0.9.1 → 0.7.1" in finding.message and finding.message == wording
    assert comparison.reportable


def test_runs_of_two_treatments_are_not_one_arm() -> None:
    mixed = [
        *arm(TREATMENT, [0.7]),
        replace(TREATMENT, seed=2, series={6: 0.7}, recipe={"train": {"lr": 5e-6}}).judged(),
    ]
    comparison = compare(arm(CONTROL, [0.68, 0.69]), [mixed])
    assert ids(comparison)["RLX907"] is Severity.ERROR
    assert not comparison.reportable


def test_arms_of_several_seeds_that_do_not_differ_are_no_experiment() -> None:
    same = replace(TREATMENT, recipe=CONTROL.recipe)
    assert ids(compare(arm(CONTROL, [0.68, 0.69]), [arm(same, [0.7, 0.8])]))["RLX901"] is Severity.ERROR


def test_other_validation_size_in_one_seed_is_found(wording: SnapshotAssertion) -> None:
    control = arm(CONTROL, [0.68, 0.69])
    control[1] = replace(CONTROL, seed=2, series={6: 0.69}, rows=1312).judged()
    comparison = compare(control, [arm(TREATMENT, [0.7, 0.8])])
    assert ids(comparison)["RLX902"] is Severity.ERROR
    assert "1312" in only(comparison).no_test and only(comparison).no_test == wording


def test_seeds_are_corrected_for_several_treatments(wording: SnapshotAssertion) -> None:
    control, slow = arm(CONTROL, [0.68, 0.69, 0.70]), replace(TREATMENT, arm="slow")
    treated = arm(TREATMENT, [0.71, 0.718, 0.726])
    alone = only(compare(control, [treated]))
    both = compare(control, [treated, arm(slow, [0.68, 0.70, 0.69])]).contrasts[0]
    assert alone.p_value is not None and alone.p_value < 0.05
    assert both.p_value == pytest.approx(2 * alone.p_value)
    assert both.sentences == wording


def test_any_metric_of_several_runs_may_be_tested(wording: SnapshotAssertion) -> None:
    comparison = compare(
        arm(CONTROL, [3.1, 3.2, 3.3], metric="val-aux/gsm8k/length/mean@1"),
        [arm(TREATMENT, [9.1, 9.3, 9.2], metric="val-aux/gsm8k/length/mean@1")],
        "length",
    )
    assert only(comparison).difference == pytest.approx(6.0) and not comparison.is_share
    assert only(comparison).sentences == wording


def test_runs_without_spread_say_why_there_is_no_p_value(wording: SnapshotAssertion) -> None:
    contrast = only(compare(arm(CONTROL, [0.68, 0.68]), [arm(TREATMENT, [0.7, 0.7])]))
    assert contrast.test is None and contrast.reportable
    assert contrast.p_value is None and contrast.sentences == wording


def test_one_fix_of_what_was_said_already_is_shown_once() -> None:
    comparison = compare(arm(CONTROL, [0.68, 0.69]), [arm(TREATMENT, [0.7, 0.8])])
    said = Finding("RLX902", Severity.ERROR, "metric", "measure alike")
    other = replace(said, message="scale")
    contrast = replace(only(comparison), sentences=(f"no result: {said.message}",), findings=(said, said, other))
    shown = list(lines(replace(comparison, contrasts=(contrast,))))
    after = shown.index("  no result: metric") + 1
    assert shown[after] == f"    fix: {said.fix}" and "train.lr" in shown[after + 1]
    assert shown[-2:] == ["  error RLX902 scale", f"    fix: {said.fix}"]
    assert shown.count(f"    fix: {said.fix}") == 2


@pytest.mark.parametrize(("lr", "are_one_arm"), [(1e-6, True), (2e-6, False)])
def test_runs_of_one_name_are_one_arm_unless_their_recipes_differ(
    lr: float, are_one_arm: bool, wording: SnapshotAssertion
) -> None:
    one = replace(CONTROL, series={6: 0.68}).judged()
    other = replace(CONTROL, seed=2, series={6: 0.7}, recipe={"train": {"lr": lr}}).judged()
    said = {each.id: each.message for each in only(compare([one], [[other]])).findings}
    assert said == wording
