from __future__ import annotations

import math
from itertools import chain

import numpy as np
import pytest
import scipy
from hypothesis import assume, given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from rlx.compare.paired import PairedItems, mcnemar_p, paired_items, tango_interval
from rlx.compare.statistic import ALPHA

counts = st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 1500)).map(
    lambda each: (each[0], each[1], each[0] + each[1] + each[2])
)


def answers(better: int, worse: int, both: int, neither: int) -> tuple[list[float], list[float]]:
    """Right and wrong answers of the control and the treatment."""
    kinds = [(0.0, 1.0)] * better + [(1.0, 0.0)] * worse + [(1.0, 1.0)] * both + [(0.0, 0.0)] * neither
    control, treatment = zip(*kinds, strict=True)
    return list(control), list(treatment)


def result_of(control: list[float], treatment: list[float]) -> PairedItems:
    test = paired_items(control, treatment)
    assert isinstance(test, PairedItems)
    return test


def test_published_example() -> None:
    # Bentur et al. (2009) as in Fagerland, Lydersen, Laake (2014), Recommended tests and confidence intervals for
    # paired binomial proportions, Statistics in Medicine 33:2850-2875: 1 and 7 of 21 changed.
    assert mcnemar_p(1, 7) == pytest.approx(0.034, abs=5e-4)
    assert tango_interval(1, 7, 21) == pytest.approx((-0.517, -0.026), abs=5e-4)


def test_right_or_wrong_answers_are_counted_in_pairs() -> None:
    test = result_of(*answers(better=30, worse=12, both=800, neither=158))
    assert (test.n, test.better, test.worse) == (1000, 30, 12)
    assert (test.control, test.treatment) == (0.812, 0.83)
    assert test.difference == pytest.approx(0.018)
    assert test.p_value == pytest.approx(math.erfc(18 / math.sqrt(2 * 42)))
    assert test.low < test.difference < test.high


def test_pairs_find_what_two_shares_hide() -> None:
    from rlx.compare.proportions import two_proportions

    control, treatment = answers(better=30, worse=12, both=800, neither=158)
    unpaired = two_proportions(812, 830, 1000)
    assert result_of(control, treatment).p_value < ALPHA < unpaired.p_value
    assert result_of(control, treatment).detectable < unpaired.detectable


@given(counts)
def test_interval_and_p_value_never_contradict_each_other(case: tuple[int, int, int]) -> None:
    better, worse, n = case
    assume(n > 0 and abs(mcnemar_p(better, worse) - ALPHA) > 1e-9)
    low, high = tango_interval(better, worse, n)
    assert (low > 0 or high < 0) == (mcnemar_p(better, worse) < ALPHA)
    assert -1 <= low <= (better - worse) / n <= high <= 1


@given(counts)
def test_swapping_the_arms_mirrors_the_interval(case: tuple[int, int, int]) -> None:
    better, worse, n = case
    assume(n > 0)
    low, high = tango_interval(better, worse, n)
    assert tango_interval(worse, better, n) == pytest.approx((-high, -low))


def test_runs_that_agree_on_every_item_show_no_difference_and_promise_little() -> None:
    test = result_of(*answers(better=0, worse=0, both=60, neither=40))
    assert (test.p_value, test.difference, test.items_needed) == (1.0, 0.0, None)
    # Score interval of no event in n: z² / (n + z²).
    assert (test.low, test.high) == pytest.approx((-0.03699, 0.03699), abs=1e-5)
    assert test.detectable > 0.03


def test_mean_scores_get_a_paired_t_test() -> None:
    rng = np.random.default_rng(3)
    control = rng.binomial(8, 0.6, 50) / 8
    treatment = rng.binomial(8, 0.7, 50) / 8
    test, reference = result_of(list(control), list(treatment)), scipy.stats.ttest_rel(treatment, control)
    interval = reference.confidence_interval()
    assert test.p_value == pytest.approx(reference.pvalue)
    assert (test.low, test.high) == pytest.approx((interval.low, interval.high))
    assert "t test" in test.method


def test_items_needed_show_the_observed_difference() -> None:
    test = result_of(*answers(better=30, worse=20, both=700, neither=250))
    assert test.items_needed is not None and test.items_needed > test.n
    factor = test.items_needed / test.n
    larger = answers(*(round(count * factor) for count in (30, 20, 700, 250)))
    assert result_of(*larger).detectable == pytest.approx(test.difference, rel=0.02)


@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_equal_differences_are_no_sample_of_a_spread(shift: float, wording: SnapshotAssertion) -> None:
    control = [0.25, 0.5, 0.25]
    reason = paired_items(control, [score + shift for score in control])
    assert isinstance(reason, str) and reason == wording


def test_one_item_is_no_test_of_means() -> None:
    assert isinstance(paired_items([0.25], [0.5]), str)
    assert result_of([0.0], [1.0]).p_value > ALPHA


def test_numbers_are_plain() -> None:
    test = result_of([0.25, 0.5, 0.75, 1.0], [0.5, 0.5, 0.5, 1.0])
    numbers = (test.low, test.high, test.p_value, test.detectable)
    assert {type(number) for number in chain(numbers, (test.difference,))} == {float}
