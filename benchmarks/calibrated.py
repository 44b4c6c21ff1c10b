"""A line of the calibration: how often a test errs, and how often its interval holds the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlx.compare.statistic import ALPHA, Z_POWER, Z_TWO_SIDED, TTest, holm

HEAD = "| what | false alarms | coverage | coverage of a true difference | found |\n|---|---:|---:|---:|---:|"
_FALSE_ALARMS = (0.04, 0.06)
_COVERAGE = (0.94, 0.965)

Floats = NDArray[np.float64]
Tested = tuple[Floats, Floats, Floats]
"""p-values, and lower and upper bounds, one each replication; nan where there was no test."""


@dataclass(frozen=True, slots=True)
class Line:
    """Shares of the replications: p < 0.05 and intervals that hold 0 where nothing differs; then, with the true
    difference that is said to be seen with 80 % power, intervals that hold it, and p < 0.05. `warned`: `rlx compare`
    says itself that its test errs more often here."""

    what: str
    replications: int
    false_alarms: float
    coverage: float | None = None
    coverage_apart: float | None = None
    found: float | None = None
    warned: bool = False

    @property
    def errs(self) -> bool:
        """More often than promised, where nothing differs."""
        return self._above(self.false_alarms, _FALSE_ALARMS[1]) or self._too_low(self.coverage)

    @property
    def broken(self) -> bool:
        """It errs, and nobody is told."""
        return self.errs and not self.warned

    @property
    def notes(self) -> list[str]:
        """`cautious`: fewer alarms than 4 % or wider intervals than promised. `short`: a true difference is missed."""
        wide = self.coverage is not None and self._above(self.coverage, _COVERAGE[1])
        notes = {
            "**broken**": self.broken,
            "errs, known": self.errs and self.warned,
            "cautious": wide or self.false_alarms < _FALSE_ALARMS[0],
            "short": self._too_low(self.coverage_apart),
        }
        return [note for note, applies in notes.items() if applies]

    def __str__(self) -> str:
        shares = (self.false_alarms, self.coverage, self.coverage_apart, self.found)
        texts = ["" if share is None else f"{100 * share:.1f} %" for share in shares]
        return f"| {', '.join([self.what, *self.notes])} | {' | '.join(texts)} |"

    def _too_low(self, share: float | None) -> bool:
        return share is not None and share < _COVERAGE[0] - self._slack(_COVERAGE[0])

    def _above(self, share: float, limit: float) -> bool:
        return share > limit + self._slack(limit)

    def _slack(self, share: float) -> float:
        """Twice the standard error of the simulation."""
        return 2 * float(np.sqrt(share * (1 - share) / self.replications))


def line(what: str, test: Callable[[float], Tested], effect: float, largest: float) -> Line:
    """`test` draws data with a true difference and tests it; differences above `largest` cannot be drawn."""
    p_values, low, high = test(0.0)
    alone = Line(what, len(p_values), alarms(p_values), covered(low, high, 0.0))
    if effect > largest:
        return alone
    p_apart, low, high = test(effect)
    return Line(what, len(p_values), alone.false_alarms, alone.coverage, covered(low, high, effect), alarms(p_apart))


def alarms(p_values: Floats) -> float:
    """No test, no alarm."""
    return float(np.mean(p_values < ALPHA))


def any_alarm(p_values: Floats) -> float:
    """How often one of several treatments, in the rows, is called different after correction."""
    return float(np.mean([min(holm(list(row))) < ALPHA for row in np.nan_to_num(p_values, nan=1.0).T]))


def covered(low: Floats, high: Floats, truth: float) -> float:
    tested = np.isfinite(low)
    return float(np.mean((low <= truth)[tested] & (high >= truth)[tested]))


def visible(variance: float, items: int) -> float:
    """The difference that is seen with 80 % power, where one item's difference has this variance."""
    return (Z_TWO_SIDED + Z_POWER) * float(np.sqrt(variance / items))


def by_count(counts: NDArray[np.int64], test: Callable[[int, int], Sequence[float]]) -> Tested:
    """The test of two counts, which replications share, made once for each pair of them."""
    pairs, where = np.unique(counts, axis=0, return_inverse=True)
    p_value, low, high = np.array([test(int(left), int(right)) for left, right in pairs]).T[:, where.ravel()]
    return p_value, low, high


def bounds(test: TTest) -> Tested:
    return test.p_value, test.difference - test.half, test.difference + test.half
