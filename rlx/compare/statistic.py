"""Parts of all statistics: their protocol, error rates, t tests, margins and spreads. `inference` registers them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import NormalDist, stdev, variance
from typing import Any, NamedTuple, Protocol

from rlx.compare.metric import ItemCount

ALPHA = 0.05
POWER = 0.80
Z_TWO_SIDED = NormalDist().inv_cdf(1 - ALPHA / 2)
Z_POWER = NormalDist().inv_cdf(POWER)
UPPER = 0.80


class Statistic(Protocol):
    """Treatment minus control at one step, as a frozen dataclass: its fields are shown as they are with --json.

    `low` and `high` bound the 95 % interval. `detectable` is the difference that this sample shows with 80 % power.
    """

    @property
    def difference(self) -> float: ...

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...

    @property
    def p_value(self) -> float: ...

    @property
    def detectable(self) -> float: ...

    @property
    def is_of_arms(self) -> bool:
        """Tell whether it is about the treatment, by all runs of both arms; else about two checkpoints."""

    @property
    def is_by_item(self) -> bool:
        """Tell whether it compares the answers to each item."""

    @property
    def unit_of_sample(self) -> str:
        """`items`, of which n are in the sample; or `runs`."""

    def sample_words(self, seeds: str) -> str:
        """Write what follows a p-value, `n = 1319`. `seeds`: the runs of both arms in words."""

    def counted_words(self, items: ItemCount) -> str:
        """Write what follows the interval: the sample and the method."""

    def needed_words(self) -> str:
        """Say how large a sample would show the observed difference, `5200 items`; "" where none would."""


class OfItems:
    """Say what every test of two checkpoints says: it is about n items, and never about the treatment."""

    __slots__ = ()

    n: int
    items_needed: int | None

    @property
    def is_of_arms(self) -> bool:
        return False

    @property
    def unit_of_sample(self) -> str:
        return "items"

    def sample_words(self, seeds: str) -> str:
        return f"n = {self.n}"

    def needed_words(self) -> str:
        return f"{self.items_needed} items" if self.items_needed else ""


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return the p-values corrected for being several (Holm 1979), in the order given."""
    count, highest = len(p_values), 0.0
    corrected = [0.0] * count
    for rank, index in enumerate(sorted(range(count), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (count - rank) * p_values[index]))
        corrected[index] = highest
    return tuple(corrected)


class TTest(NamedTuple):
    """A difference, its standard error and degrees of freedom; half the 95 % interval and the two-sided p-value.

    Numbers or arrays of one shape; nan where the standard error is 0.
    """

    difference: Any
    error: Any
    df: Any
    half: Any
    p_value: Any


def t_test(difference: Any, error: Any, df: Any) -> TTest:
    import numpy as np
    from scipy.special import stdtr, stdtrit

    with np.errstate(invalid="ignore", divide="ignore"):
        p_value = 2 * stdtr(df, -abs(np.divide(difference, error)))
    return TTest(difference, error, df, stdtrit(df, 1 - ALPHA / 2) * error, p_value)


def detectable_difference(error: float, df: float) -> float:
    """Return the true difference that a t test with this standard error finds with 80 % power (noncentral t)."""
    from scipy.special import nctdtrinc, stdtrit

    return float(nctdtrinc(df, 1 - POWER, stdtrit(df, 1 - ALPHA / 2)) * error)


def p_above(test: TTest, limit: float) -> Any:
    """Return the one-sided p-value against "the difference is `limit` or less", in the shape of the test; nan without
    spread.

    With the negative margin as `limit` it is the p-value of non-inferiority.
    """
    return _upper_tail(test.difference - limit, test)


def p_below(test: TTest, limit: float) -> Any:
    """Return the one-sided p-value against "the difference is `limit` or more"."""
    return _upper_tail(limit - test.difference, test)


def p_within(test: TTest, margin: float) -> Any:
    """Return the p-value of equivalence (TOST): the larger of those against either end of the margin.

    It is below 5 % exactly where the 90 % interval is within the margin. Source: Schuirmann (1987), A comparison of the
    two one-sided tests procedure and the power approach for assessing the equivalence of average bioavailability,
    Journal of Pharmacokinetics and Biopharmaceutics 15:657-680. Margins are positive; all are in one unit.
    """
    import numpy as np

    return np.maximum(p_above(test, -margin), p_below(test, margin))


def p_beyond(test: TTest, margin: float) -> Any:
    """Return the p-value of "the difference is larger than the margin, on either side": the smaller one-sided one.

    Not doubled: at a true difference of one end of the margin, only the tail of that end can reject.
    """
    import numpy as np

    return np.minimum(p_above(test, margin), p_below(test, -margin))


def _upper_tail(distance: Any, test: TTest) -> Any:
    import numpy as np
    from scipy.special import stdtr

    with np.errstate(invalid="ignore", divide="ignore"):
        return stdtr(test.df, -np.divide(distance, test.error))


def pooled_sd(groups: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the standard deviation within groups of two or more values, and its degrees of freedom: their sum.

    Raises ValueError where no group has two values.
    """
    counted = [group for group in groups if len(group) > 1]
    df = sum(len(group) - 1 for group in counted)
    if not df:
        raise ValueError("no group has two values")
    return math.sqrt(sum((len(group) - 1) * variance(group) for group in counted) / df), df


def upper_sd(sd: float, df: int, level: float = UPPER) -> float:
    """Return the upper bound of a standard deviation with `df` degrees of freedom, one-sided, for normal values.

    df times the square of observed over true follows chi-square. With 2 degrees of freedom it is 2.1 times what was
    observed, with 8 1.3 times. Planning with the observed one fails in every second study; with this bound in one of
    five (Browne 1995, On the use of a pilot sample for sample size determination, Statistics in Medicine 14:1933-1940).
    """
    from scipy.special import gammaincinv

    return sd * math.sqrt(df / (2 * float(gammaincinv(df / 2, 1 - level))))


def unlike_spreads(arms: Sequence[Sequence[float]]) -> float | None:
    """Return the p-value of the largest difference between two arms' variances: two-sided F test, times the number of
    pairs.

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
