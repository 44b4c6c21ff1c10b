"""Power before the runs: against textbooks, against the issue of small samples, and against itself."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from rlx.compare.registered_design import (
    MOST_RUNS,
    Claim,
    Design,
    MultiplicityCorrection,
    power,
    runs_for,
    smallest_effect,
    smallest_margin,
    textbook_power,
)
from rlx.compare.statistic import pooled_sd, unlike_spreads, upper_sd

BETTER = Design()
DESIGNS = [
    BETTER,
    Design(blocked=True),
    Design(several=MultiplicityCorrection.HOLM),
    Design(Claim.NON_INFERIORITY, 3.0),
    Design(Claim.EQUIVALENCE, 3.0),
]


def test_equivalence_is_expensive() -> None:
    """Five seeds an arm, TOST with Welch's t: 6 % at a margin of one standard deviation, 76 % at two."""
    one, two = (power(Design(Claim.EQUIVALENCE, margin), 0.0, 1.0, 5) for margin in (1.0, 2.0))
    assert (one, two) == pytest.approx((0.06, 0.76), abs=0.01)


@pytest.mark.parametrize("design", [BETTER, Design(Claim.NON_INFERIORITY, 1.0)], ids=str)
def test_many_seeds_have_the_power_of_the_textbook(design: Design) -> None:
    assert power(design, 0.5, 1.0, 30) == pytest.approx(textbook_power(design, 0.5, 1.0, 30), abs=2e-3)
    # Cohen (1988), table 2.3.5: d = 0.5 with 64 an arm has 80 %.
    assert power(BETTER, 0.5, 1.0, 64) == pytest.approx(0.80, abs=0.005)


def test_few_seeds_have_less_than_the_textbook_says() -> None:
    effect = 3.07
    assert textbook_power(BETTER, effect, 1.0, 3) == pytest.approx(0.80, abs=0.02)
    assert power(BETTER, effect, 1.0, 3) < textbook_power(BETTER, effect, 1.0, 3) - 0.05


def test_dunnett_finds_what_holm_misses() -> None:
    """Three treatments of three seeds, one true effect of 3.07 standard deviations."""
    dunnett, holm = (power(Design(several=each), 3.07, 1.0, 3, 3) for each in MultiplicityCorrection)
    assert dunnett == pytest.approx(0.78, abs=0.03)
    assert holm == pytest.approx(0.36, abs=0.06)


@pytest.mark.parametrize("design", DESIGNS, ids=str)
@pytest.mark.parametrize("treatments", [1, 3])
def test_power_grows_with_seeds_and_reaches_eighty_percent_where_it_says(design: Design, treatments: int) -> None:
    effect = 1.5 if design.margin is None else 0.0
    found = [power(design, effect, 1.2, runs, treatments) for runs in (2, 3, 5, 8, 13, 40)]
    assert found == sorted(found) and found[0] >= 0 and found[-1] <= 1
    needed = runs_for(design, effect, 1.2, treatments)
    assert needed is not None
    assert power(design, effect, 1.2, needed, treatments) >= 0.8 > power(design, effect, 1.2, needed - 1, treatments)


@pytest.mark.parametrize("treatments", [1, 3])
def test_what_is_said_to_be_seen_is_seen_with_eighty_percent(treatments: int) -> None:
    effect = smallest_effect(BETTER, 1.3, 5, treatments)
    assert power(BETTER, effect, 1.3, 5, treatments) == pytest.approx(0.8, abs=1e-6)
    for claim in (Claim.NON_INFERIORITY, Claim.EQUIVALENCE):
        margin = smallest_margin(Design(claim, 1.0), 1.3, 5, treatments)
        assert power(Design(claim, margin), 0.0, 1.3, 5, treatments) == pytest.approx(0.8, abs=1e-6)


def test_no_difference_is_never_found_and_a_tiny_one_by_no_number_anybody_runs() -> None:
    assert power(BETTER, 0.0, 1.0, 5) == pytest.approx(0.044, abs=2e-3), "Welch's test errs a little less than 5 %"
    assert runs_for(BETTER, 0.0, 1.0) is None
    assert runs_for(BETTER, 0.001, 1.0) is None
    assert power(BETTER, 1.0, 0.0, 2) == 1.0 and power(Design(Claim.EQUIVALENCE, 1.0), 1.0, 0.0, 2) == 0.0
    with pytest.raises(ValueError, match="runs"):
        power(BETTER, 1.0, 1.0, 1)
    assert MOST_RUNS == 1000


def test_the_upper_bound_of_a_spread_holds_in_four_of_five() -> None:
    rng = np.random.default_rng(1)
    for runs in (3, 5):
        bounds = [upper_sd(float(rng.normal(size=runs).std(ddof=1)), runs - 1) for _ in range(4000)]
        assert np.mean(np.array(bounds) >= 1) == pytest.approx(0.80, abs=0.02)
    assert upper_sd(1.0, 2) == pytest.approx((2 / scipy.stats.chi2.ppf(0.2, 2)) ** 0.5)


def test_spreads_are_pooled_within_groups() -> None:
    assert pooled_sd([[1.0, 3.0], [10.0, 14.0], [7.0]]) == (pytest.approx((0.5 * (2 + 8)) ** 0.5), 2)
    with pytest.raises(ValueError, match="no group"):
        pooled_sd([[1.0]])


def test_unlike_spreads_are_called_so_in_five_percent_of_like_ones() -> None:
    rng = np.random.default_rng(1)
    found = [unlike_spreads(rng.normal(size=(2, 5)).tolist()) for _ in range(4000)]
    assert np.mean(np.array(found, float) < 0.05) == pytest.approx(0.05, abs=0.01)
    assert unlike_spreads([[1.0, 2.0]]) is None
    assert unlike_spreads([[1.0, 1.0], [1.0, 1.0]]) == 1.0
