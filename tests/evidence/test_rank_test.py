from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.evidence.checks.gap_test import p_larger

SMALL = st.lists(st.sampled_from([0.0, 1.0, 1.5, 2.0, 3.0, 7.0]), min_size=1, max_size=5)


def by_enumeration(sample: list[float], reference: list[float]) -> float:
    """The definition: the share of all assignments of the values whose U is at least the observed one."""
    values = sample + reference

    def u(chosen: tuple[int, ...]) -> float:
        rest = [values[i] for i in range(len(values)) if i not in chosen]
        return sum((values[i] > other) + 0.5 * (values[i] == other) for i in chosen for other in rest)

    assignments = list(combinations(range(len(values)), len(sample)))
    observed = u(tuple(range(len(sample))))
    return sum(u(assignment) >= observed for assignment in assignments) / len(assignments)


@settings(deadline=None)
@given(SMALL, SMALL)
def test_exact_p_is_the_share_of_assignments(sample: list[float], reference: list[float]) -> None:
    assert p_larger(sample, reference) == pytest.approx(by_enumeration(sample, reference))


# From scipy.stats.mannwhitneyu(sample, reference, alternative="greater"), scipy 1.17.1: two exact, three asymptotic.
SCIPY = [
    ([19, 22, 16, 29, 24], [20, 11, 17, 12], 0.05555555555555555),
    ([9.0, 8.0, 7.0], [1.0, 2.0, 3.0, 4.0], 1 / 35),
    (list(range(20, 50)), list(range(0, 40, 2)), 2.553492727155293e-05),
    ([i % 7 + 1 for i in range(25)], [i % 6 for i in range(20)], 0.01117445741662085),
    ([i + 0.3 for i in range(10, 31)], list(range(20)), 8.913830547611017e-06),
]


@pytest.mark.parametrize(("sample", "reference", "p"), SCIPY)
def test_the_values_of_scipy(sample: list[float], reference: list[float], p: float) -> None:
    assert p_larger(sample, reference) == pytest.approx(p)


def test_the_smallest_p_is_one_assignment() -> None:
    assert p_larger(range(4, 20), range(4)) == pytest.approx(1 / math.comb(20, 4))
    assert p_larger(range(3, 6), range(3)) == pytest.approx(1 / 20)
    assert p_larger([], range(4)) == p_larger(range(4), []) == 1.0


def test_the_approximation_is_on_the_safe_side_where_it_takes_over() -> None:
    sample, reference = [i + 0.3 for i in range(10, 31)], [float(i) for i in range(20)]
    exact, approximate = p_larger(sample[1:], reference), p_larger(sample, reference)
    assert exact < approximate < 20 * exact


def test_equal_values_say_nothing() -> None:
    assert p_larger([1.0] * 30, [1.0] * 30) == 1.0
    assert p_larger([1.0] * 5, [1.0] * 5) == 1.0
