"""Two shares of correct answers, each out of the same n items: difference, interval, p-value, power.

The test takes the two shares as independent. The arms answer the same items, so a paired test would be sharper;
that needs the outputs per item. No scipy: `math` and `statistics` have all that this takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlx.compare.error_rates import Z_POWER, Z_TWO_SIDED
from rlx.compare.item_counts import ItemCount
from rlx.compare.statistic import OfItems


@dataclass(frozen=True, slots=True)
class TwoProportions(OfItems):
    """Treatment against control at one step. Shares and differences are fractions: 0.0242 is 2.42 points.

    `low` and `high` bound the 95 % interval of the difference. `detectable` is the difference that this n shows with
    80 % power, `items_needed` the n that shows the observed difference so (None where there is no difference).
    """

    n: int
    control: float
    treatment: float
    difference: float
    low: float
    high: float
    z: float
    p_value: float
    detectable: float
    items_needed: int | None

    @property
    def is_by_item(self) -> bool:
        return False

    def counted_words(self, items: ItemCount) -> str:
        return f"; n = {self.n} from {items.source}"


def two_proportions(control: int, treatment: int, n: int) -> TwoProportions:
    """Compare two counts of correct answers, both out of `n` items. ValueError where a count is not in 0 … n."""
    if not (n > 0 and 0 <= control <= n and 0 <= treatment <= n):
        raise ValueError(f"counts {control} and {treatment} do not fit {n} items")
    difference = (treatment - control) / n
    low, high = newcombe_interval(control, treatment, n)
    z = pooled_z(control, treatment, n)
    variance = _planning_variance(control, treatment, n)
    return TwoProportions(
        n=n,
        control=control / n,
        treatment=treatment / n,
        difference=difference,
        low=low,
        high=high,
        z=z,
        p_value=math.erfc(abs(z) / math.sqrt(2)),
        detectable=(Z_TWO_SIDED + Z_POWER) * math.sqrt(2 * variance / n),
        items_needed=_items_needed(difference, variance),
    )


def pooled_z(control: int, treatment: int, n: int) -> float:
    """The z statistic of the two-proportion test with pooled variance; 0.0 where all or no answers are correct."""
    pooled = (control + treatment) / (2 * n)
    error = math.sqrt(2 * pooled * (1 - pooled) / n)
    return (treatment - control) / n / error if error else 0.0


def wilson_interval(correct: int, n: int) -> tuple[float, float]:
    """The 95 % score interval of one share (Wilson 1927); unlike Wald's it holds for small n and near 0 and 1."""
    share, z2 = correct / n, Z_TWO_SIDED**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_TWO_SIDED * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def newcombe_interval(control: int, treatment: int, n: int) -> tuple[float, float]:
    """The 95 % interval of treatment minus control, built from the two Wilson intervals.

    Source: Newcombe (1998), Interval estimation for the difference between independent proportions: comparison of
    eleven methods, Statistics in Medicine 17:873-890, method 10.
    """
    difference, a, b = (treatment - control) / n, control / n, treatment / n
    (a_low, a_high), (b_low, b_high) = wilson_interval(control, n), wilson_interval(treatment, n)
    return difference - math.hypot(b - b_low, a_high - a), difference + math.hypot(b_high - b, a - a_low)


def _planning_variance(control: int, treatment: int, n: int) -> float:
    """p(1 - p) of the pooled share after adding one correct and one wrong answer to each arm (Agresti & Caffo 2000):
    without them two arms at 100 % would promise to show any difference at all."""
    pooled = (control + treatment + 2) / (2 * n + 4)
    return pooled * (1 - pooled)


def _items_needed(difference: float, variance: float) -> int | None:
    if not difference:
        return None
    return math.ceil(2 * variance * ((Z_TWO_SIDED + Z_POWER) / difference) ** 2)
