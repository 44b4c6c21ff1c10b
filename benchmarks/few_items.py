"""Two shares of few items: how often their tests err, by adding up every pair of counts. Nothing is left to chance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlx.compare.proportions import EXACT_UP_TO, two_proportions
from rlx.compare.statistic import ALPHA

HEAD = "| items | most false alarms | at 1 % | least coverage | mean coverage |\n|---|---:|---:|---:|---:|"
ITEMS = (3, 5, 10, 20, EXACT_UP_TO, EXACT_UP_TO + 1, 100)
_SHARES = np.linspace(0.01, 0.99, 99)
_MOST = 0.06

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ExactLine:
    """The largest share of false alarms over true shares from 1 to 99 %, and the least and mean coverage over pairs."""

    what: str
    most_alarms: float
    most_at_one_percent: float
    least_coverage: float
    mean_coverage: float

    @property
    def broken(self) -> bool:
        return self.most_alarms > _MOST

    def __str__(self) -> str:
        shares = (self.most_alarms, self.most_at_one_percent, self.least_coverage, self.mean_coverage)
        mark = ", **broken**" if self.broken else ""
        return f"| {self.what}{mark} | {' | '.join(f'{100 * share:.1f} %' for share in shares)} |"


def lines() -> Iterator[ExactLine]:
    for items in ITEMS:
        test = "Fisher" if items <= EXACT_UP_TO else "z"
        yield exact_line(f"n = {items}, {test}", items)


def exact_line(what: str, items: int) -> ExactLine:
    counts = range(items + 1)
    tests = [[two_proportions(control, treatment, items) for treatment in counts] for control in counts]
    p_values, low, high = (
        np.array([[getattr(test, name) for test in row] for row in tests]) for name in ("p_value", "low", "high")
    )
    chances = _chances(items)
    coverage = _coverage(chances, low, high)
    alarms = [_alarms(chances, p_values < level).max() for level in (ALPHA, ALPHA / 5)]
    return ExactLine(what, float(alarms[0]), float(alarms[1]), float(coverage.min()), float(coverage.mean()))


def _chances(items: int) -> Floats:
    """(shares, counts): how likely each count is at each true share."""
    from scipy.stats import binom

    return np.asarray(binom.pmf(np.arange(items + 1), items, _SHARES[:, None]))


def _alarms(chances: Floats, rejected: NDArray[np.bool_]) -> Floats:
    """For each share, how often the test rejects where both arms have it."""
    return np.einsum("si,ij,sj->s", chances, rejected.astype(float), chances)


def _coverage(chances: Floats, low: Floats, high: Floats) -> Floats:
    """(shares, shares): how often the interval holds the true difference, for each share of control and treatment."""
    found = np.empty((len(_SHARES), len(_SHARES)))
    for row, control in enumerate(_SHARES):
        for column, treatment in enumerate(_SHARES):
            holds = (low <= treatment - control) & (high >= treatment - control)
            found[row, column] = chances[row] @ holds @ chances[column]
    return found
