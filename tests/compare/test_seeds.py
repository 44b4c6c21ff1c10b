from __future__ import annotations

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from rlx.compare.seed_test import WelchSeeds, mean_test, runs_needed, welch_seeds
from rlx.compare.statistic import ALPHA, detectable_difference

# Shares of 1319 items.
share = st.integers(800, 1000).map(lambda right: right / 1319)
values = st.lists(share, min_size=2, max_size=12, unique=True)


def arms_of(runs: int) -> st.SearchStrategy[list[float]]:
    return st.lists(share, min_size=runs, max_size=runs, unique=True)


def result_of(control: list[float], treatment: list[float]) -> WelchSeeds:
    test = welch_seeds(control, treatment)
    assert isinstance(test, WelchSeeds)
    return test


@given(values, values)
def test_the_p_value_is_scipys_of_the_test_that_is_named(control: list[float], treatment: list[float]) -> None:
    test = result_of(control, treatment)
    reference = scipy.stats.ttest_ind(treatment, control, equal_var=test.method.startswith("Student's"))
    interval = reference.confidence_interval(1 - ALPHA)
    assert (test.t, test.df, test.p_value) == pytest.approx((reference.statistic, reference.df, reference.pvalue))
    assert (test.low, test.high) == pytest.approx((interval.low, interval.high))


@given(st.integers(2, 12).flatmap(lambda runs: st.tuples(arms_of(runs), arms_of(runs))))
def test_arms_of_equal_size_get_welchs_test(arms: tuple[list[float], list[float]]) -> None:
    assert result_of(*arms).method.startswith("Welch's t test")


@given(arms_of(4), arms_of(4))
def test_the_unit_of_the_metric_changes_nothing(control: list[float], treatment: list[float]) -> None:
    test = result_of(control, treatment)
    tiny = result_of([1e-90 * value for value in control], [1e-90 * value for value in treatment])
    assert (tiny.df, tiny.p_value) == pytest.approx((test.df, test.p_value))


@settings(deadline=None)
@given(values, values)
def test_bounds_and_p_value_agree(control: list[float], treatment: list[float]) -> None:
    test = result_of(control, treatment)
    assert test.low < test.difference < test.high
    assert (test.low > 0 or test.high < 0) == (test.p_value < ALPHA)
    least, most = min(len(control), len(treatment)) - 1, len(control) + len(treatment) - 2
    assert least - 1e-9 <= test.df <= most + 1e-9


@given(values, values)
def test_unequal_arms_are_never_bolder_than_either_test(control: list[float], treatment: list[float]) -> None:
    if len(control) != len(treatment):
        test = result_of(control, treatment)
        for equal_var in (True, False):
            reference = scipy.stats.ttest_ind(treatment, control, equal_var=equal_var)
            interval = reference.confidence_interval(1 - ALPHA)
            assert test.high - test.low >= (interval.high - interval.low) * (1 - 1e-9)
            assert test.p_value >= ALPHA or reference.pvalue < ALPHA


def test_equal_spreads_have_the_degrees_of_freedom_of_both_arms(wording: SnapshotAssertion) -> None:
    test = result_of([0.68, 0.70], [0.72, 0.74])
    assert test.df == 2
    assert test.t == pytest.approx(0.04 / np.sqrt(2 * 0.0002 / 2))
    assert "2.0" in test.method and test.method == wording


def test_swapping_the_arms_mirrors_everything() -> None:
    there, back = result_of([0.7, 0.71, 0.69], [0.72, 0.75]), result_of([0.72, 0.75], [0.7, 0.71, 0.69])
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert (there.p_value, there.detectable) == pytest.approx((back.p_value, back.detectable))


def test_arrays_give_what_single_values_give() -> None:
    rng = np.random.default_rng(2)
    control, treatment = rng.normal(size=(20, 3)), rng.normal(size=(20, 4))
    together = mean_test(control, treatment)
    for row in range(20):
        alone = result_of(list(control[row]), list(treatment[row]))
        assert (together.p_value[row], together.df[row]) == pytest.approx((alone.p_value, alone.df))


def test_runs_without_spread_get_no_test(wording: SnapshotAssertion) -> None:
    reason = welch_seeds([0.7, 0.7], [0.8, 0.8])
    assert isinstance(reason, str) and reason == wording
    assert isinstance(welch_seeds([0.7, 0.7], [0.7, 0.8]), WelchSeeds)


def test_detectable_difference_has_eighty_percent_power() -> None:
    error, df = 0.01, 4
    critical = scipy.stats.t.ppf(1 - ALPHA / 2, df)
    noncentrality = detectable_difference(error, df) / error
    assert 1 - scipy.stats.nct.cdf(critical, df, noncentrality) == pytest.approx(0.80, abs=1e-4)


@pytest.mark.parametrize("difference", [0.005, -0.01, 0.02, 0.2])
def test_runs_needed_are_the_fewest(difference: float) -> None:
    needed = runs_needed(difference, 0.01)
    assert needed is not None

    def seen(runs: int) -> float:
        return detectable_difference(0.01 * np.sqrt(2 / runs), 2 * runs - 2)

    assert seen(needed) <= abs(difference)
    assert needed == 2 or seen(needed - 1) > abs(difference)


def test_no_number_of_runs_shows_no_difference() -> None:
    assert runs_needed(0.0, 0.01) is None
    assert result_of([0.69, 0.71], [0.68, 0.72]).runs_needed is None
