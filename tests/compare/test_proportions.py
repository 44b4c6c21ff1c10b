from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.compare.proportions import (
    EXACT_UP_TO,
    clopper_pearson,
    newcombe_interval,
    two_proportions,
    wilson_interval,
)
from rlx.compare.statistic import holm

# Differences that were reported for published checkpoints, with z and p worked out by hand from rounded shares.
PUBLISHED = json.loads(
    (Path(__file__).parent.parent / "cases" / "compare" / "published" / "two_proportions.json").read_text(
        encoding="utf-8"
    )
)

counts = st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.integers(0, n), st.just(n)))


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: row["what"])
def test_published_differences_get_their_z_and_p(row: dict[str, float]) -> None:
    n = int(row["n"])
    test = two_proportions(round(row["control"] * n), round(row["treatment"] * n), n)
    assert test.z == pytest.approx(row["z"], abs=0.01)
    # The published p-values start from rounded shares, these from counts.
    assert test.p_value == pytest.approx(row["p"], abs=0.01 if row["p"] > 0.2 else 0.002)


def test_1319_items_show_five_points_at_seventy_percent() -> None:
    test = two_proportions(923, 923, 1319)
    assert 100 * test.detectable == pytest.approx(5.0, abs=0.02)
    assert test.items_needed is None


def test_items_needed_make_the_observed_difference_detectable() -> None:
    small = two_proportions(899, 931, 1319)
    assert small.items_needed is not None
    factor = small.items_needed / 1319
    large = two_proportions(round(899 * factor), round(931 * factor), small.items_needed)
    assert large.detectable == pytest.approx(small.difference, rel=0.01)


@pytest.mark.parametrize(
    ("treatment", "control", "n", "interval"),
    # Newcombe (1998), table II, method 10; Wilson's interval from table I of the same author's first paper.
    [(9, 3, 10, (0.1705, 0.8090)), (10, 0, 10, (0.6075, 1.0)), (0, 0, 10, (-0.2775, 0.2775))],
)
def test_interval_is_that_of_newcombe(treatment: int, control: int, n: int, interval: tuple[float, float]) -> None:
    assert newcombe_interval(control, treatment, n) == pytest.approx(interval, abs=5e-5)


def test_interval_of_one_share_is_that_of_wilson() -> None:
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)


@given(counts)
def test_swapping_the_arms_mirrors_everything(case: tuple[int, int, int]) -> None:
    control, treatment, n = case
    there, back = two_proportions(control, treatment, n), two_proportions(treatment, control, n)
    assert there.p_value == pytest.approx(back.p_value)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.detectable == pytest.approx(back.detectable)


@given(counts)
def test_numbers_are_finite_and_in_their_bounds(case: tuple[int, int, int]) -> None:
    test = two_proportions(*case)
    assert -1 - 1e-9 <= test.low <= test.difference <= test.high <= 1 + 1e-9
    assert 0 <= test.p_value <= 1
    assert 0 < test.detectable < math.inf


def test_all_correct_in_both_arms_is_no_difference() -> None:
    test = two_proportions(32, 32, 32)
    assert (test.z, test.p_value) == (0.0, 1.0)
    assert test.detectable > 0.05


@pytest.mark.parametrize("case", [(5, 11, 10), (-1, 5, 10), (0, 0, 0)])
def test_counts_that_do_not_fit_are_refused(case: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=re.escape(str(case[0]))):
        two_proportions(*case)


def test_holm_steps_down_and_keeps_the_order() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    assert holm([0.9, 0.8]) == (1.0, 1.0)
    assert holm([]) == ()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_lowers_and_never_reorders(raw: list[float]) -> None:
    corrected = holm(raw)
    assert all(0 <= before <= after <= 1 for before, after in zip(raw, corrected, strict=True))
    ordered = [p for _, p in sorted(zip(raw, corrected, strict=True))]
    assert ordered == sorted(ordered)


few_counts = st.integers(1, EXACT_UP_TO).flatmap(lambda n: st.tuples(st.integers(0, n), st.integers(0, n), st.just(n)))


@settings(deadline=None)
@given(few_counts)
def test_few_items_get_fishers_test_and_an_interval_that_agrees(case: tuple[int, int, int]) -> None:
    control, treatment, n = case
    test = two_proportions(*case)
    table = [[treatment, n - treatment], [control, n - control]]
    assert test.p_value == pytest.approx(scipy.stats.fisher_exact(table).pvalue)
    assert (test.low > 0 or test.high < 0) == (test.p_value < 0.05)


def test_the_limit_of_the_exact_test() -> None:
    assert two_proportions(10, 20, EXACT_UP_TO).method == "Fisher's exact test"
    assert two_proportions(10, 20, EXACT_UP_TO + 1).method == "z test, Newcombe's interval"


def test_exact_interval_of_one_share_is_that_of_clopper_and_pearson() -> None:
    for correct in (0, 3, 10):
        reference = scipy.stats.binomtest(correct, 10).proportion_ci(method="exact")
        assert clopper_pearson(correct, 10) == pytest.approx((reference.low, reference.high))
