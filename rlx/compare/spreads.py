"""Standard deviations over seeds: pooled, bounded from above, and held against each other.

In whichever unit they are given. A handful of seeds know their spread only roughly: what is planned with it takes the
upper bound, and whether two spreads are unlike is said and changes no test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import stdev, variance

from rlx.compare.error_rates import ALPHA

UPPER = 0.80


def pooled_sd(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """The standard deviation within groups of two or more values, and its degrees of freedom: their sum.

    Raises ValueError where no group has two values.
    """
    counted = [group for group in groups if len(group) > 1]
    df = sum(len(group) - 1 for group in counted)
    if not df:
        raise ValueError("no group has two values")
    return math.sqrt(sum((len(group) - 1) * variance(group) for group in counted) / df), df


def upper_sd(sd: float, df: int, level: float = UPPER) -> float:
    """The upper bound of a standard deviation with `df` degrees of freedom, one-sided, for normal values.

    df times the square of observed over true follows chi-square. With 2 degrees of freedom it is 2.1 times what was
    observed, with 8 1.3 times. Planning with the observed one fails in every second study; with this bound in one of
    five (Browne 1995, On the use of a pilot sample for sample size determination, Statistics in Medicine 14:1933-1940).
    """
    from scipy.special import gammaincinv

    return sd * math.sqrt(df / (2 * float(gammaincinv(df / 2, 1 - level))))


def unlike_spreads(arms: Sequence[Sequence[float]]) -> float | None:
    """The p-value of the largest difference between two arms' variances: two-sided F test, times the number of pairs.

    None where fewer than two arms have two values each. Three seeds an arm notice a ratio of standard deviations from
    6.2 on, five from 3.1 on: a spread that is not called unlike may still be so.
    """
    from scipy.special import fdtrc

    pairs = list(combinations([arm for arm in arms if len(arm) > 1], 2))
    if not pairs:
        return None
    found = []
    for pair in pairs:
        wide, narrow = sorted(pair, key=variance, reverse=True)
        ratio = variance(wide) / variance(narrow) if variance(narrow) else math.inf if variance(wide) else 1.0
        found.append(2 * float(fdtrc(len(wide) - 1, len(narrow) - 1, ratio)))
    return min(1.0, len(pairs) * min(found))


def spread_note(arms: Sequence[Sequence[float]], scale: float = 1.0) -> str:
    """Say that the arms spread unlike each other, and how that was judged; "" where nothing shows it.

    `arms`: values of the runs, the control first. `scale` makes points of the unit of the values.
    """
    p_value = unlike_spreads(arms)
    if p_value is None or p_value >= ALPHA:
        return ""
    sds = ", ".join(f"{scale * stdev(arm):.2g}" for arm in arms if len(arm) > 1)
    judged = f"standard deviations {sds}; F test, p = {p_value:.2g}"
    return f"the arms spread unlike each other ({judged}), which changes no test"
