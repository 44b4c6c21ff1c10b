"""Test whether one sample's values are larger than another's, exactly, because one run offers small samples.

One-sided Mann-Whitney test: H. B. Mann and D. R. Whitney, "On a test of whether one of two random variables is
stochastically larger than the other", Ann. Math. Statist. 18 (1947) 50-60. It needs no threshold and no normality:
under "no difference" every assignment of the observed ranks to the two samples is equally likely. Ties get the mean of
their ranks. Beyond _EXACT values in all, the normal approximation with tie and continuity correction (E. L. Lehmann,
Nonparametrics, 1975, ch. 1.5); scipy.stats.mannwhitneyu gives the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

_EXACT = 40


def p_larger(sample: Sequence[float], reference: Sequence[float]) -> float:
    """The probability of ranks at least as high as those of `sample` if both came from one distribution.

    Finite values only. 1.0 where either is empty: no data, no evidence.
    """
    if not sample or not reference:
        return 1.0
    doubled = _doubled_ranks([*sample, *reference])
    if len(doubled) > _EXACT:
        return _normal_p(doubled, len(sample))
    return _exact_p(doubled, len(sample))


def best_p(sample_size: int, reference_size: int) -> float:
    """The smallest p that samples of these sizes can reach: every value of one above every value of the other."""
    return p_larger([1.0 + i for i in range(sample_size)], [-1.0 - i for i in range(reference_size)])


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Double the rank of each value, ties averaged, so that sums are exact in whole numbers."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    start = 1
    for _, group in groupby(order, key=values.__getitem__):
        tied = list(group)
        for index in tied:
            ranks[index] = 2 * start + len(tied) - 1
        start += len(tied)
    return ranks


def _exact_p(doubled: Sequence[int], size: int) -> float:
    counts = _subsets_by_sum(tuple(sorted(doubled)), size)
    observed = sum(doubled[:size])
    extreme = sum(ways for total, ways in counts.items() if total >= observed)
    return extreme / math.comb(len(doubled), size)


@lru_cache(maxsize=128)
def _subsets_by_sum(doubled: tuple[int, ...], size: int) -> dict[int, int]:
    """Count the subsets of `size` ranks by their sum, adding one rank after the other."""
    counts: list[dict[int, int]] = [{0: 1}] + [{} for _ in range(size)]
    for rank in doubled:
        for taken in range(size, 0, -1):
            for total, ways in counts[taken - 1].items():
                counts[taken][total + rank] = counts[taken].get(total + rank, 0) + ways
    return counts[size]


def _normal_p(doubled: Sequence[int], size: int) -> float:
    everything = len(doubled)
    other = everything - size
    above_mean = (sum(doubled[:size]) - size * (everything + 1)) / 2
    ties = sum(count**3 - count for count in (len(list(group)) for _, group in groupby(sorted(doubled))))
    variance = size * other / 12 * (everything + 1 - ties / (everything * (everything - 1)))
    if variance <= 0:
        return 1.0
    return math.erfc((above_mean - 0.5) / math.sqrt(2 * variance)) / 2
