from __future__ import annotations

import numpy as np
import pytest
import scipy

from rlx.compare.dunnett import critical, loadings, opposite_sides, p_value, same_side


# Dunnett (1955) for one side, Dunnett (1964), Biometrics 20:482-491, for two: equal sizes, 5 %.
@pytest.mark.parametrize(
    ("df", "treatments", "one_sided", "two_sided"),
    [(5, 2, 2.44, 3.03), (5, 3, 2.68, 3.29), (10, 2, 2.15, 2.57), (10, 3, 2.34, 2.76), (20, 3, 2.19, 2.54)],
)
def test_limits_are_the_published_ones(df: int, treatments: int, one_sided: float, two_sided: float) -> None:
    shares = loadings(7, [7] * treatments)
    assert critical(0.05, df, shares, same_side(treatments)) == pytest.approx(one_sided, abs=0.006)
    assert critical(0.05, df, shares) == pytest.approx(two_sided, abs=0.006)


@pytest.mark.parametrize("df", [1, 2, 4, 30, 1000])
def test_one_treatment_is_students_t(df: int) -> None:
    shares, statistics = loadings(5, [5]), np.array([0.0, 0.5, 2.0, 4.0])
    assert p_value(statistics, df, shares) == pytest.approx(2 * scipy.stats.t.sf(statistics, df), abs=1e-6)
    assert p_value(statistics, df, shares, same_side(1)) == pytest.approx(scipy.stats.t.sf(statistics, df), abs=1e-6)


def test_opposite_sides_are_stricter_than_one_side_and_less_than_bonferroni() -> None:
    shares = loadings(5, [5, 5, 5])
    one, opposite = (critical(0.05, 16, shares, sides) for sides in (same_side(3), opposite_sides(3)))
    assert one < opposite < scipy.stats.t.isf(0.05 / 3, 16)


def test_unequal_sizes_are_scipys() -> None:
    rng = np.random.default_rng(3)
    control, *treatments = (rng.normal(size=size) for size in (8, 3, 5, 4))
    reference = scipy.stats.dunnett(*treatments, control=control, rng=1)
    own = p_value(abs(reference.statistic), 16, loadings(8, [3, 5, 4]))
    assert own == pytest.approx(reference.pvalue, abs=3e-4)
