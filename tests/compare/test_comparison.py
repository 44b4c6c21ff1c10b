from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.compare import Comparison, other_sources
from rlx.compare.metric import Unit
from rlx.errors import ExitCode, RlxError, UsageError
from rlx.evidence import JudgedRun, VerdictStatus
from rlx.model import RunState, Severity
from tests.compare.builders import one_run_each, only

Build = Callable[..., JudgedRun]

CURVES = json.loads(
    (Path(__file__).parent.parent / "cases" / "compare" / "published" / "curves.json").read_text(encoding="utf-8")
)


def severities(comparison: Comparison) -> dict[str, Severity]:
    return {finding.id: finding.severity for finding in only(comparison).findings}


def test_published_headline_is_no_significant_difference(
    control: JudgedRun, treated: Build, wording: SnapshotAssertion
) -> None:
    comparison = one_run_each(control, [treated()])
    contrast = only(comparison)
    assert contrast.p_value == pytest.approx(0.18, abs=0.005) and contrast.test is not None and contrast.test.n == 1319
    assert (contrast.step, contrast.difference) == (116, pytest.approx(0.0242))
    assert contrast.sentences == wording
    assert severities(comparison) == {"RLX905": Severity.NOTE, "RLX912": Severity.WARNING}
    assert comparison.reportable


def test_words_follow_the_numbers(control: JudgedRun, treated: Build, wording: SnapshotAssertion) -> None:
    contrast = only(one_run_each(control, [treated(series={0: 0.072, 116: 0.7301})]))
    assert contrast.p_value is not None and contrast.p_value < 0.05
    assert len(contrast.checkpoints) == 2 and contrast.difference == pytest.approx(0.0485)
    assert contrast.sentences == wording


@pytest.mark.parametrize(
    ("one", "other", "step", "significant"),
    [("E5", "E5b", 116, False), ("E5c", "E5d", 116, False), ("E13h", "E13j_v2", 29, True)],
)
def test_published_curves(
    control_builder: Build,
    treated: Build,
    one: str,
    other: str,
    step: int,
    significant: bool,
    wording: SnapshotAssertion,
) -> None:
    left, right = ({int(s): v for s, v in CURVES[name]["accuracy"].items()} for name in (one, other))
    contrast = only(one_run_each(control_builder(series=left), [treated(series=right)]))
    assert contrast.step == step
    assert contrast.p_value is not None
    assert (contrast.p_value < 0.05) == significant
    assert contrast.sentences[1] == wording


def test_last_common_step_counts_and_no_peak_does(control_builder: Build, treated: Build) -> None:
    comparison = one_run_each(
        control_builder(series={0: 0.1, 20: 0.6, 40: 0.7, 58: 0.72}),
        [treated(series={0: 0.1, 20: 0.9, 40: 0.7, 49: 0.95})],
    )
    contrast = only(comparison)
    assert (contrast.step, contrast.difference) == (40, 0.0)
    assert comparison.treatments[0].peak is not None and comparison.treatments[0].peak.step == 49
    assert [row.step for row in comparison.steps] == [0, 20, 40, 49, 58]


@pytest.mark.parametrize("status", [VerdictStatus.INVALID, VerdictStatus.INCOMPLETE])
def test_broken_arm_gets_no_result(
    control: JudgedRun, treated: Build, status: VerdictStatus, wording: SnapshotAssertion
) -> None:
    comparison = one_run_each(control, [treated(status=status)])
    assert not comparison.reportable
    assert only(comparison).test is None
    assert only(comparison).sentences == wording
    assert only(comparison).difference == pytest.approx(0.0242)


def test_broken_control_spoils_every_treatment(control_builder: Build, treated: Build) -> None:
    comparison = one_run_each(control_builder(status=VerdictStatus.INVALID), [treated(), treated(arm="other")])
    assert [contrast.reportable for contrast in comparison.contrasts] == [False, False]


def test_unverified_arm_carries_the_word(control: JudgedRun, treated: Build, wording: SnapshotAssertion) -> None:
    comparison = one_run_each(control, [treated(status=VerdictStatus.UNVERIFIED)])
    assert only(comparison).is_result(*comparison.arms)
    assert not only(comparison).reportable
    assert not comparison.verified
    assert only(comparison).p_value is not None and only(comparison).p_value > 0.05
    assert only(comparison).sentences == wording


@pytest.mark.parametrize("state", [RunState.QUEUED, RunState.STARTING, RunState.RUNNING])
def test_unfinished_run_has_interim_values_and_no_p_value(
    control: JudgedRun, treated: Build, state: RunState, wording: SnapshotAssertion
) -> None:
    running = treated(state=state, status=VerdictStatus.INCOMPLETE, series={0: 0.072, 100: 0.6975})
    comparison = one_run_each(control, [running])
    contrast = only(comparison)
    assert comparison.interim
    assert not comparison.treatments[0].is_excluded
    assert (contrast.step, contrast.test, contrast.reportable) == (100, None, False)
    assert contrast.sentences == wording


def test_no_common_step_yet_is_no_error_while_a_run_goes_on(
    control: JudgedRun, treated: Build, wording: SnapshotAssertion
) -> None:
    done = one_run_each(control, [treated(series={10: 0.5})])
    assert severities(done)["RLX904"] is Severity.ERROR
    assert not done.reportable
    running = one_run_each(control, [treated(series={10: 0.5}, state=RunState.RUNNING)])
    (note,) = [each for each in only(running).findings if each.id == "RLX904"]
    assert note.severity is Severity.NOTE and running.interim
    assert [note.fix, *only(running).sentences] == wording


def test_arms_that_do_not_differ_are_no_experiment(control: JudgedRun, treated: Build) -> None:
    comparison = one_run_each(control, [treated(recipe={}, treatment=(), seed=2)])
    assert severities(comparison)["RLX901"] is Severity.ERROR
    assert not comparison.reportable
    assert "RLX901" in {finding.id for finding in only(one_run_each(control, [treated(recipe={})])).findings}


def test_other_validation_size_allows_no_p_value(
    control: JudgedRun, treated: Build, wording: SnapshotAssertion
) -> None:
    comparison = one_run_each(control, [treated(rows=1312)])
    contrast = only(comparison)
    assert severities(comparison)["RLX902"] is Severity.ERROR
    assert (contrast.test, contrast.reportable) == (None, False)
    assert "1319" in contrast.no_test and "1312" in contrast.no_test
    assert contrast.sentences == wording


def test_other_validation_data_at_the_same_path_is_found(control_builder: Build, treated: Build) -> None:
    def found(digest: str) -> dict[str, Any]:
        return {"data": {"/home/u/gsm8k/test.parquet": {"sha256": digest, "modified": len(digest)}}}

    same = one_run_each(control_builder(provenance=found("aa")), [treated(provenance=found("aa"))])
    other = one_run_each(control_builder(provenance=found("aa")), [treated(provenance=found("bb"))])
    assert same.reportable
    assert severities(other)["RLX902"] is Severity.ERROR


@pytest.mark.parametrize(("key", "values"), [("n", (1, 4)), ("noise", (False, True)), ("temperature", (0.0, 0.7))])
def test_arms_that_are_evaluated_in_another_way_are_not_comparable(
    control_builder: Build, treated: Build, key: str, values: tuple[object, object]
) -> None:
    """Also where an arm declares it: the treatment is the training's, never the validation's."""
    first, other = ({"eval": {key: value}} for value in values)
    comparison = one_run_each(
        control_builder(recipe=first), [treated(recipe={"aqn": {}, **other}, treatment=("aqn", f"eval.{key}"))]
    )
    assert severities(comparison)["RLX902"] is Severity.ERROR
    assert not comparison.reportable
    assert one_run_each(control_builder(recipe=first), [treated(recipe={"aqn": {}, **first})]).reportable


@pytest.mark.parametrize(("dissent", "word"), [(True, "contradicted"), (False, "unverified")])
def test_a_dissenting_witness_is_no_result(control: JudgedRun, treated: Build, dissent: bool, word: str) -> None:
    run = treated(status=VerdictStatus.UNVERIFIED)
    run = replace(run, verdict=replace(run.verdict, dissent=dissent))
    comparison = one_run_each(control, [run])
    assert (only(comparison).is_result(*comparison.arms), comparison.treatments[0].is_excluded) == (
        not dissent,
        dissent,
    )
    assert (only(comparison).p_value is None) == dissent
    assert word in only(comparison).sentences[-2]
    assert comparison.outcome(allow_unverified=True) is (ExitCode.NOT_VERIFIED if dissent else ExitCode.OK)
    assert comparison.outcome() is ExitCode.NOT_VERIFIED
    going_on = replace(run, state=RunState.RUNNING)
    assert one_run_each(control, [going_on]).outcome(allow_unverified=True) is ExitCode.NOT_FINISHED


def test_other_metric_is_not_comparable(control: JudgedRun, treated: Build) -> None:
    comparison = one_run_each(control, [treated(metric="val-core/gsm8k/reward/mean@1")])
    assert severities(comparison)["RLX902"] is Severity.ERROR


def test_undeclared_differences_are_named(control_builder: Build, treated: Build, wording: SnapshotAssertion) -> None:
    changed = treated(
        seed=2,
        recipe={"aqn": {"stages": 10}, "train": {"save_every": 5}},
        provenance={
            "packages": {"verl": "0.9.1", "ray": "2.60"},
            "files": {"payload/reward.py": "b", "launch.sh": "x"},
        },
    )
    before = {"packages": {"verl": "0.7.1", "ray": "2.60"}, "files": {"payload/reward.py": "a", "launch.sh": "y"}}
    comparison = one_run_each(control_builder(recipe={"train": {"save_every": 9}}, provenance=before), [changed])
    (finding,) = [each for each in only(comparison).findings if each.id == "RLX903"]
    assert finding.severity is Severity.WARNING
    changes = ("payload/reward.py: a → b", "seed: 1 → 2", "train.save_every: 9 → 5", "verl: 0.7.1 → 0.9.1")
    assert all(change in finding.message for change in changes) and "launch.sh" not in finding.message
    assert finding.message == wording
    assert comparison.reportable


def test_uncommitted_changes_are_a_difference(
    control_builder: Build, treated: Build, wording: SnapshotAssertion
) -> None:
    def found(changes: str, image: str) -> dict[str, Any]:
        return {"image": image, "ascend": {"cann": "8.5.0"}, "commits": {"verl": "ab"}, "changes": {"verl": changes}}

    changed = treated(provenance=found("c0ffee", "sha256:2"))
    comparison = one_run_each(control_builder(provenance=found("none", "sha256:1")), [changed])
    (finding,) = [each for each in only(comparison).findings if each.id == "RLX903"]
    assert all(value in finding.message for value in ("none → c0ffee", "sha256:1 → sha256:2"))
    assert finding.message == wording


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"metric": "val-core/gsm8k/acc/mean@8"}, "mean@1"),
        ({"metric": "critic/score/mean"}, "mean@1"),
        ({"rows": None, "planned_rows": None}, "--val-size"),
        ({"series": {0: 0.1, 116: 0.123456789}}, "1/1319"),
        ({"more_metrics": {"val-core/math/acc/mean@1": 0.5}}, "2 data sources"),
    ],
)
def test_no_p_value_and_the_reason(
    control_builder: Build, treated: Build, changes: dict[str, Any], fact: str, wording: SnapshotAssertion
) -> None:
    metric = changes.get("metric")
    contrast = only(one_run_each(control_builder(**changes), [treated(**changes)], metric))
    assert contrast.test is None
    assert fact in contrast.no_test and contrast.no_test in contrast.sentences[0]
    assert contrast.reportable and contrast.p_value is None
    assert contrast.sentences == wording


def test_n_of_the_log_outranks_the_plan_and_both_are_said(
    control_builder: Build, treated: Build, wording: SnapshotAssertion
) -> None:
    series = {0: 0.5, 116: 0.75}
    contrast = only(
        one_run_each(
            control_builder(series=series, planned_rows=100, rows=96),
            [treated(series=series, planned_rows=100, rows=96)],
        )
    )
    assert contrast.test is not None and contrast.test.n == 96
    assert "100" in contrast.sentences[0], "the plan's"
    assert contrast.sentences == wording


def test_n_of_one_arm_is_not_taken_for_the_others(
    control_builder: Build, treated: Build, wording: SnapshotAssertion
) -> None:
    """Known for the control alone, and no digest, path or filter says that the treatment has the same items."""
    unknown = {"rows": None, "planned_rows": None}
    elsewhere = {"aqn": {"stages": 10}, "data": {"train": "~/gsm8k/train.parquet", "val": "~/other/test.parquet"}}
    contrast = only(one_run_each(control_builder(), [treated(recipe=elsewhere, **unknown)]))
    assert contrast.test is None
    other_way = only(one_run_each(control_builder(**unknown), [treated(recipe=elsewhere)]))
    assert other_way.test is None
    assert "1319" in contrast.no_test and "1319" in other_way.no_test
    assert [contrast.no_test, other_way.no_test] == wording


def test_n_is_known_for_both_where_they_are_known_to_have_the_same_items(
    control_builder: Build, treated: Build, wording: SnapshotAssertion
) -> None:
    unknown = {"rows": None, "planned_rows": None}
    contrast = only(one_run_each(control_builder(), [treated(**unknown)]))
    assert contrast.test is not None and contrast.test.n == 1319
    assert contrast.sentences == wording
    # One path on two hosts may be two files.
    found = [{"data": {"/data/test.parquet": {"sha256": digest}}} for digest in ("sha256:1", "sha256:1", "sha256:2")]
    recipe = {"aqn": {"stages": 10}, "data": {"val": "/data/test.parquet"}}
    control = control_builder(recipe={"data": recipe["data"]}, provenance=found[0])
    runs = [treated(arm=arm, recipe=recipe, provenance=found[at], **unknown) for at, arm in enumerate("ab", start=1)]
    same, other = one_run_each(control, runs).contrasts
    assert same.test is not None
    assert other.test is None and [each.id for each in other.errors] == ["RLX902"]
    assert other.no_test == wording
    # Nor does the same file have the same rows under another filter.
    longer = {**recipe, "data": {**recipe["data"], "max_prompt_tokens": 2048}}
    filtered = treated(recipe=longer, provenance=found[1], **unknown)
    by_filter = only(one_run_each(control, [filtered]))
    assert by_filter.test is None and [each.id for each in by_filter.errors] == ["RLX902"]
    assert by_filter.no_test == wording
    counted = treated(recipe={**recipe, "data": {**recipe["data"], "val_rows": 7}}, provenance=found[1], **unknown)
    by_rows = only(one_run_each(control, [counted]))
    assert by_rows.test is None and not by_rows.errors
    assert by_rows.no_test == wording


def test_p_values_are_corrected_for_several_treatments(
    control: JudgedRun, treated: Build, wording: SnapshotAssertion
) -> None:
    series = {0: 0.0925, 116: 0.7195}
    alone = only(one_run_each(control, [treated(series=series)]))
    together = one_run_each(control, [treated(series=series), treated(arm="other")]).contrasts[0]
    assert alone.p_value is not None and alone.p_value < 0.05
    assert together.p_value == pytest.approx(2 * alone.p_value)
    assert together.p_value is not None and together.p_value > 0.05
    assert together.sentences == wording


def test_runs_with_one_arm_get_longer_labels(control: JudgedRun, treated: Build) -> None:
    comparison = one_run_each(control, [treated(seed=1), treated(seed=2)])
    assert [run.label for run in comparison.runs] == ["baseline", "aqn-s1", "aqn-s2"]


def test_nan_is_no_validation(control_builder: Build, treated: Build) -> None:
    comparison = one_run_each(control_builder(series={0: 0.1, 116: 0.6816}), [treated(series={0: 0.1, 116: math.nan})])
    assert only(comparison).step == 0


def test_metric_by_a_part_of_its_name(control: JudgedRun, treated: Build, wording: SnapshotAssertion) -> None:
    assert one_run_each(control, [treated()], "acc").metric == "val-core/gsm8k/acc/mean@1"
    with pytest.raises(UsageError, match="accuracy/mean@1") as caught:
        one_run_each(control, [treated()], "accuracy/mean@1")
    assert "val-core/gsm8k/acc/mean@1" in caught.value.hint
    more = treated(more_metrics={"val-aux/gsm8k/acc/mean@1": 0.5})
    with pytest.raises(UsageError, match="--metric acc") as ambiguous:
        one_run_each(control, [more], "acc")
    assert [f"{each.value}\n{each.value.hint}" for each in (caught, ambiguous)] == wording


@pytest.mark.parametrize(
    ("state", "code"), [(RunState.RUNNING, ExitCode.NOT_FINISHED), (RunState.FAILED, ExitCode.NOT_VERIFIED)]
)
def test_no_validation_at_all(
    control_builder: Build, treated: Build, state: RunState, code: ExitCode, wording: SnapshotAssertion
) -> None:
    with pytest.raises(RlxError) as caught:
        one_run_each(control_builder(series={}, state=state), [treated(series={}, state=state)])
    assert caught.value.exit_code == code
    assert str(caught.value) == wording


@pytest.mark.parametrize("first", [7.2, 0.0])
def test_percent_against_shares_is_no_difference(
    control: JudgedRun, treated: Build, first: float, wording: SnapshotAssertion
) -> None:
    """Before the training nothing may be right, which is as much a share as it is percent."""
    contrast = only(one_run_each(control, [treated(series={0: first, 100: 69.75, 116: 70.58})]))
    (finding,) = contrast.errors
    assert finding.id == "RLX902" and all(value in finding.message for value in ("0.6914", "70.58"))
    assert finding.message == wording
    assert not contrast.reportable and "+69" not in " ".join(contrast.sentences)


def test_values_after_the_last_common_step_are_named(
    control: JudgedRun, treated: Build, wording: SnapshotAssertion
) -> None:
    """A run whose last value is lost, or is no number, does not choose where the other one is measured unseen."""
    lost = treated(series={0: 0.072, 100: 0.6975, 116: math.nan})
    said = only(one_run_each(control, [lost])).sentences
    whole = only(one_run_each(control, [treated()])).sentences
    (later,) = [each for each in said if "116" in each]
    assert "baseline" in later and len(said) == len(whole) + 1
    assert said == wording


def test_other_data_sources_are_known(control_builder: Build) -> None:
    runs = [control_builder(more_metrics={"val-core/math/acc/mean@1": 0.3, "val-aux/gsm8k/score/mean@1": 0.5})]
    assert other_sources(runs, "val-core/gsm8k/acc/mean@1") == ["val-core/math/acc/mean@1"]


def test_a_small_difference_shows_on_which_side_of_nothing_it_lies() -> None:
    points = Unit(in_points=True)
    assert (points.change(0.0242), points.change(0.0003), points.change(-0.0003)) == (
        "+2.4 points",
        "+0.03 points",
        "-0.03 points",
    )
    assert (points.change(0.0), points.bare(0.0003), points.size(-0.0004)) == ("+0.0 points", "0.03", "0.04 points")


def test_three_items_prove_nothing(control_builder: Build, treated: Build, wording: SnapshotAssertion) -> None:
    """0 of 3 against 3 of 3: the z test says p = 0.014, and 0.1 is what chance does."""
    few = {"planned_rows": 3, "rows": 3}
    contrast = only(one_run_each(control_builder(series={0: 0.0}, **few), [treated(series={0: 1.0}, **few)]))
    assert contrast.p_value == pytest.approx(0.1)
    assert contrast.sentences == wording
    assert contrast.test is not None and contrast.test.low <= 0 < contrast.test.high
