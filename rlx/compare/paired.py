"""Two checkpoints on the same items: the test of the paired differences. Scores and differences are fractions.

Method: paired differences, answers to one item taken together as their mean (Miller 2024, Adding Error Bars to Evals,
arXiv 2411.00640). Right-or-wrong answers get the score test and its inversion: McNemar's test and Tango's interval can
never contradict each other, and both hold for small n, where the exact test gives away power (docs/dev/calibration.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from rlx.compare.metric import ItemCount
from rlx.compare.statistic import Z_POWER, Z_TWO_SIDED, OfItems, t_test

_BISECTIONS = 60


@dataclass(frozen=True, slots=True)
class PairedItems(OfItems):
    """Treatment minus control over `n` items that both answered; an item with several answers counts by their mean.

    `low` and `high` bound the 95 % interval. `better` and `worse` count the items on which the treatment scored
    higher and lower. `detectable` is the difference that these items show with 80 % power, `items_needed` how many
    items would show the observed difference so (None where there is no difference).
    """

    n: int
    control: float
    treatment: float
    difference: float
    low: float
    high: float
    better: int
    worse: int
    p_value: float
    detectable: float
    items_needed: int | None
    method: str

    @property
    def is_by_item(self) -> bool:
        return True

    def counted_words(self, items: ItemCount) -> str:
        return f"; n = {self.n} items that both answered, {self.better} better and {self.worse} worse ({self.method})"


def paired_items(control: Sequence[float], treatment: Sequence[float]) -> PairedItems | str:
    """Return the test of two checkpoints, or why there is none. Both have the mean score of each item, in the same
    order.
    """
    differences = [right - left for left, right in zip(control, treatment, strict=True)]
    n, binary = len(differences), {*control, *treatment} <= {0, 1}
    if not binary and len(set(differences)) < 2:
        return f"the scores of all {n} items differ by the same amount: they show no spread to judge by"
    better, worse = (sum(sign * each > 0 for each in differences) for sign in (1, -1))
    interval, p_value, spread = _binary(better, worse, n) if binary else _means(differences)
    difference = fmean(differences)
    return PairedItems(
        n=n,
        control=fmean(control),
        treatment=fmean(treatment),
        difference=difference,
        low=interval[0],
        high=interval[1],
        better=better,
        worse=worse,
        p_value=p_value,
        detectable=(Z_TWO_SIDED + Z_POWER) * math.sqrt(spread / n),
        items_needed=math.ceil(spread * ((Z_TWO_SIDED + Z_POWER) / difference) ** 2) if difference else None,
        method="McNemar's test, Tango's interval" if binary else "paired t test of item means",
    )


def mcnemar_p(better: int, worse: int) -> float:
    """Return the two-sided p-value of McNemar's score test, without continuity correction."""
    differing = better + worse
    return math.erfc(abs(better - worse) / math.sqrt(2 * differing)) if differing else 1.0


def tango_interval(better: int, worse: int, n: int) -> tuple[float, float]:
    """Return the 95 % score interval of a difference of two paired shares.

    Source: Tango (1998), Equivalence test and confidence interval for the difference in proportions for the paired-
    sample design, Statistics in Medicine 17:891-908. It holds the differences that the score test does not reject.
    """
    return -_upper_bound(worse, better, n), _upper_bound(better, worse, n)


def _binary(better: int, worse: int, n: int) -> tuple[tuple[float, float], float, float]:
    """Interval, p-value and variance of the differences. For planning, one item more differs in each direction:
    without them two runs that agree on every item would seem able to show any difference."""
    spread = (better + worse + 2) / (n + 2)
    return tango_interval(better, worse, n), mcnemar_p(better, worse), spread


def _means(differences: Sequence[float]) -> tuple[tuple[float, float], float, float]:
    n, spread = len(differences), variance(differences)
    test = t_test(fmean(differences), math.sqrt(spread / n), n - 1)
    return (float(test.difference - test.half), float(test.difference + test.half)), float(test.p_value), spread


def _upper_bound(better: int, worse: int, n: int) -> float:
    """Return the largest difference that the score test accepts, by bisection: its statistic grows with the
    distance.
    """
    accepted, rejected = (better - worse) / n, 1.0
    for _ in range(_BISECTIONS):
        middle = (accepted + rejected) / 2
        if better - worse - n * middle >= -Z_TWO_SIDED * math.sqrt(_score_variance(better, worse, n, middle)):
            accepted = middle
        else:
            rejected = middle
    return accepted


def _score_variance(better: int, worse: int, n: int, difference: float) -> float:
    """Return the variance of better - worse if the true difference were `difference`; Tango's maximum likelihood
    estimate.
    """
    linear = (2 * n - better + worse) * difference - better - worse
    constant = -worse * difference * (1 - difference)
    only_worse = (math.sqrt(max(0.0, linear * linear - 8 * n * constant)) - linear) / (4 * n)
    return max(0.0, n * (2 * only_worse + difference * (1 - difference)))
