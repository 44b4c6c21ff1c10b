"""The value of a run that a registered question is answered with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.compare import primary_values
from rlx.evidence import JudgedRun
from rlx.evidence.run_evidence import Disagreement
from rlx.model import Registration
from tests.compare.builders import METRIC, RunBuilder
from tests.registrations import ASKED

LAST = replace(ASKED, metric=METRIC)
AREA = replace(LAST, at="auc")


def mean_of_last(validations: int) -> Registration:
    return replace(LAST, at="mean_of_last", validations=validations)


def planned(planned_steps: tuple[int, ...], logged: Mapping[int, float], metric: str = METRIC) -> JudgedRun:
    """A run that was to be validated at these steps, and what its log has."""
    log = {step: {metric: value} for step, value in logged.items()}
    return RunBuilder(series=dict.fromkeys(planned_steps, 0.0), metrics=log or {1: {"other": 0.0}}).judged()


def whole(logged: Mapping[int, float], metric: str = METRIC) -> JudgedRun:
    return planned(tuple(logged), logged, metric)


def test_the_last_step_is_that_of_the_plan_not_of_the_log(wording: SnapshotAssertion) -> None:
    runs = [whole({0: 0.1, 20: 0.4, 40: 0.6}), planned((0, 20, 40), {0: 0.1, 20: 0.9})]
    done, ended = primary_values(runs, LAST)
    assert (done.value, done.steps, done.why_not) == (0.6, (40,), "")
    assert ended.value is None
    assert METRIC in ended.why_not and ended.why_not == wording


def test_a_peak_before_the_end_is_not_the_value_at_the_last_step() -> None:
    (value,) = primary_values([whole({0: 0.1, 20: 0.9, 40: 0.3})], LAST)
    assert value.value == 0.3


def test_the_mean_of_the_last_leaves_earlier_ones_out() -> None:
    (value,) = primary_values([whole({0: 0.1, 10: 0.2, 20: 0.5, 30: 0.7})], mean_of_last(2))
    assert (value.value, value.steps) == (0.6, (20, 30))


def test_before_the_training_nothing_was_learned_that_a_mean_could_count(wording: SnapshotAssertion) -> None:
    (value,) = primary_values([whole({0: 0.1, 10: 0.5})], mean_of_last(2))
    assert value.value is None and value.why_not == wording


def test_a_lost_validation_is_not_replaced_by_an_earlier_one(wording: SnapshotAssertion) -> None:
    steps = (0, 10, 20, 30)
    lost = planned(steps, {0: 0.1, 10: 0.2, 30: 0.7})
    (value,) = primary_values([lost], mean_of_last(2))
    assert value.value is None and value.why_not == wording
    assert primary_values([lost], LAST)[0].value == 0.7


def test_the_area_is_the_mean_height_of_the_curve() -> None:
    (value,) = primary_values([whole({0: 0.0, 10: 0.4, 40: 0.4})], AREA)
    assert value.value == pytest.approx((10 * 0.2 + 30 * 0.4) / 40)
    assert value.steps == (0, 10, 40)


def test_a_constant_curve_has_its_height_whatever_its_steps() -> None:
    (value,) = primary_values([whole({0: 0.3, 1: 0.3, 7: 0.3})], AREA)
    assert value.value == pytest.approx(0.3)


def test_areas_are_taken_over_the_steps_that_all_runs_share() -> None:
    """A run that lost a validation at which all were poor would look better by it."""
    steps = (0, 10, 20)
    one, other = primary_values([whole({0: 0.0, 10: 0.1, 20: 0.6}), planned(steps, {0: 0.0, 20: 0.6})], AREA)
    assert one == other
    assert one.steps == (0, 20)


def test_a_run_that_ended_early_has_no_area_and_shortens_nobody_elses(wording: SnapshotAssertion) -> None:
    steps = (0, 10, 20)
    done, ended = primary_values([whole({0: 0.0, 10: 0.2, 20: 0.4}), planned(steps, {0: 0.0, 10: 0.2})], AREA)
    assert done.value == pytest.approx(0.2)
    assert done.steps == steps
    assert ended.value is None and ended.why_not == wording


def test_one_point_has_no_area(wording: SnapshotAssertion) -> None:
    (value,) = primary_values([whole({20: 0.4})], AREA)
    assert value.value is None and value.why_not == wording


def test_any_metric_of_the_log_will_do() -> None:
    run = whole({1: 100.0, 2: 120.0, 3: 140.0}, "response_length/mean")
    asked = replace(LAST, metric="response_length/mean")
    assert primary_values([run], asked)[0].value == 140.0
    assert primary_values([run], replace(asked, at="auc"))[0].value == pytest.approx(120.0)
    assert primary_values([run], replace(asked, at="mean_of_last", validations=2))[0].steps == (2, 3)


def test_a_log_without_the_metric_and_one_that_is_no_number_have_no_value(wording: SnapshotAssertion) -> None:
    without, broken = planned((0, 20), {}), whole({0: 0.1, 20: float("nan")})
    first, second = primary_values([without, broken], LAST)
    assert first.value is None and second.value is None
    assert [first.why_not, second.why_not] == wording


def test_two_records_that_disagree_where_it_counts_are_no_value(wording: SnapshotAssertion) -> None:
    run = whole({0: 0.1, 20: 0.5})
    twice = Disagreement(20, METRIC, ("train.log", "metrics.jsonl"), (0.5, 0.7))
    told = replace(run, evidence=replace(run.evidence, disagreements=(twice,)))
    (value,) = primary_values([told], LAST)
    assert value.value is None and value.why_not == wording
    elsewhere = replace(run, evidence=replace(run.evidence, disagreements=(replace(twice, step=0),)))
    assert primary_values([elsewhere], LAST)[0].value == 0.5


def test_no_runs_have_no_values() -> None:
    assert primary_values([], AREA) == ()
