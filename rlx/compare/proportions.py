"""Two shares of correct answers, each out of the same n items: difference, interval, p-value, power.

The test takes the two shares as independent. The arms answer the same items, so a paired test would be sharper;
that needs the outputs per item. Few items, up to `EXACT_UP_TO`, get Fisher's exact test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rlx.compare.metric import ItemCount
from rlx.compare.statistic import ALPHA, Z_POWER, Z_TWO_SIDED, OfItems

EXACT_UP_TO = 52
"""Items. Beyond them the z test errs in 6 % at most, whatever the true share; with 2 to 52 in up to 12.5 %."""


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
    method: str

    @property
    def is_by_item(self) -> bool:
        return False

    def counted_words(self, items: ItemCount) -> str:
        exact = f" ({self.method})" if self.n <= EXACT_UP_TO else ""
        return f"; n = {self.n} from {items.source}{exact}"


def two_proportions(control: int, treatment: int, n: int) -> TwoProportions:
    """Compare two counts of correct answers, both out of `n` items. ValueError where a count is not in 0 … n."""
    if not (n > 0 and 0 <= control <= n and 0 <= treatment <= n):
        raise ValueError(f"counts {control} and {treatment} do not fit {n} items")
    exact, difference = n <= EXACT_UP_TO, (treatment - control) / n
    low, high = (exact_interval if exact else newcombe_interval)(control, treatment, n)
    z = pooled_z(control, treatment, n)
    # One right and one wrong answer more in each arm (Agresti & Caffo 2000): without them, two arms at 100 % would seem
    # able to show any difference.
    pooled = (control + treatment + 2) / (2 * n + 4)
    variance = pooled * (1 - pooled)
    return TwoProportions(
        n=n,
        control=control / n,
        treatment=treatment / n,
        difference=difference,
        low=low,
        high=high,
        z=z,
        p_value=fisher_p(control, treatment, n) if exact else math.erfc(abs(z) / math.sqrt(2)),
        detectable=detectable_share(variance, n),
        items_needed=_items_needed(difference, variance),
        method="Fisher's exact test" if exact else "z test, Newcombe's interval",
    )


def detectable_share(variance: float, n: int) -> float:
    """Return the difference of two shares that n items an arm show with 80 % power; may be above 1, which no items
    show.

    `variance`: p (1 - p) of one answer. Fisher's test takes about 2 / difference items more than the z test (Fleiss,
    Tytun and Ury 1980, A simple approximation for calculating sample sizes for comparing independent proportions,
    Biometrics 36:343-346).
    """
    needed = 2 * variance * (Z_TWO_SIDED + Z_POWER) ** 2
    return (1 + math.sqrt(1 + n * needed)) / n if n <= EXACT_UP_TO else math.sqrt(needed / n)


def fisher_p(control: int, treatment: int, n: int) -> float:
    """Return the two-sided p-value of Fisher's exact test of two counts out of `n` each
    (`scipy.stats.fisher_exact`).
    """
    from scipy.stats import fisher_exact

    return float(fisher_exact([[treatment, n - treatment], [control, n - control]])[1])


def exact_interval(control: int, treatment: int, n: int) -> tuple[float, float]:
    """Return a 95 % interval of treatment minus control for few items, which holds 0 wherever Fisher's test finds
    nothing.

    Newcombe's construction (`newcombe_interval`) on the exact intervals of the two shares (Clopper and Pearson 1934,
    Biometrika 26:404-413) in place of Wilson's.
    """
    low, high = _by_squares(control / n, treatment / n, clopper_pearson(control, n), clopper_pearson(treatment, n))
    return (low, high) if fisher_p(control, treatment, n) < ALPHA else (min(low, 0.0), max(high, 0.0))


def clopper_pearson(correct: int, n: int) -> tuple[float, float]:
    """Return the exact 95 % interval of one share: what the binomial tests of 2.5 % on either side do not reject."""
    from scipy.special import betaincinv

    low = float(betaincinv(correct, n - correct + 1, ALPHA / 2)) if correct else 0.0
    high = float(betaincinv(correct + 1, n - correct, 1 - ALPHA / 2)) if correct < n else 1.0
    return low, high


def pooled_z(control: int, treatment: int, n: int) -> float:
    """Return the z statistic of the two-proportion test with pooled variance; 0.0 where all or no answers are
    correct.
    """
    pooled = (control + treatment) / (2 * n)
    error = math.sqrt(2 * pooled * (1 - pooled) / n)
    return (treatment - control) / n / error if error else 0.0


def wilson_interval(correct: int, n: int) -> tuple[float, float]:
    """Return the 95 % score interval of one share (Wilson 1927); unlike Wald's it holds for small n and near 0 and
    1.
    """
    share, z2 = correct / n, Z_TWO_SIDED**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_TWO_SIDED * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def newcombe_interval(control: int, treatment: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of treatment minus control, built from the two Wilson intervals.

    Source: Newcombe (1998), Interval estimation for the difference between independent proportions: comparison of
    eleven methods, Statistics in Medicine 17:873-890, method 10.
    """
    return _by_squares(control / n, treatment / n, wilson_interval(control, n), wilson_interval(treatment, n))


def _by_squares(a: float, b: float, of_a: tuple[float, float], of_b: tuple[float, float]) -> tuple[float, float]:
    """Return the interval of b - a from those of a and b: what they leave on either side adds in squares."""
    return b - a - math.hypot(b - of_b[0], of_a[1] - a), b - a + math.hypot(of_b[1] - b, a - of_a[0])


def _items_needed(difference: float, variance: float) -> int | None:
    if not difference:
        return None
    by_z = math.ceil(2 * variance * ((Z_TWO_SIDED + Z_POWER) / difference) ** 2)
    exact = math.ceil(by_z + 2 / abs(difference))
    return exact if exact <= EXACT_UP_TO else max(by_z, EXACT_UP_TO + 1)
