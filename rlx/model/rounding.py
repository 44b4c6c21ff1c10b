"""Compute how much of a noise survives when the disturbed weight is rounded to its dtype again.

A weight w with |w| in [2^e, 2^(e+1)) has neighbours 2^(e-p+1) away, p being the bits of the dtype's significand, and
half of that below a power of two. Gaussian noise moves it to the k-th neighbour where it falls within half a gap of it.
Checked against a measurement of 200,000 weights a cell (torch 2.13) in tests/model/test_rounding.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import erfc, frexp, sqrt
from typing import NamedTuple

# Bits of the significand, the leading one included, and the exponent of the smallest normal number.
_FORMATS = {"bfloat16": (8, -126), "float16": (11, -14), "float32": (24, -126)}
DTYPES = tuple(_FORMATS)
# What a weight is about where none was read: norms start at 1, matrices with a standard deviation of 0.02.
TYPICAL = {"rmsnorm": 1.0, "linear": 0.02}
# With gaps this small against sigma the sum over neighbours is its integral, up to one part in a million.
_FINE = 0.05
_REACH = 8.0  # standard deviations beyond which nothing falls
_ONE_IN_A_MILLION = 4.892  # standard deviations beyond which, on both sides together, one in a million falls
_NEVER_SEEN = 14.5  # of as many in the mean none is missing, but for one time in two million (Poisson)
_COARSER, _COARSER_SQUARE = 0.45, 9.8  # see std_band
_LARGEST = 1024.0
"""No norm weight of a model is as large."""

Weights = Mapping[float, int]


@dataclass(frozen=True, slots=True)
class Survival:
    """`changed`: share of the weights that differ after rounding; `std`: root mean square of what they moved by."""

    changed: float
    std: float


def survival(sigma: float, dtype: str, weights: Weights) -> Survival:
    """Compute what noise of standard deviation `sigma` > 0 does to weights, given as value -> how often it occurs.

    Raises KeyError for another dtype than those of DTYPES.
    """
    gaps = [(*_gaps(abs(weight), dtype), count) for weight, count in weights.items()]
    total = sum(weights.values())
    changed = sum(count * (_beyond(up / 2 / sigma) + _beyond(down / 2 / sigma)) for up, down, count in gaps)
    square = sum(count * (_moved(up, sigma) + _moved(down, sigma)) for up, down, count in gaps)
    return Survival(changed / total, sqrt(square / total))


class StdBand(NamedTuple):
    """The range in which a root mean square must be."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Return whether the value is in the range; NaN never is."""
        return self.low <= value <= self.high


def std_band(asked: float, elements: int, changed: int | None, dtype: str = "") -> StdBand:
    """Compute the range of the noise that arrived, except for one sync in a million.

    `asked`: standard deviation without rounding. Of `elements` weights `changed` differ after rounding; None: not
    counted. The weights themselves are not known, so the band is that of the worst of them: where rounding leaves the
    share c of the weights changed, the mean square is at least c and at most 1 + 0.45 (1 - c) of what was asked for,
    and its variance a weight at most 3 + 9.8 (1 - c) - c² (a gap of 2.2 and of 3.5 standard deviations, the extremes
    of `_moved` and of its square over 1 - `_beyond`). The sum of so many is taken for a multiple of chi-square with the
    same mean and variance (F. E. Satterthwaite, Biometrics Bulletin 2 (1946) 110-114), whose quantiles are those of
    E. B. Wilson and M. M. Hilferty, PNAS 17 (1931) 684-688. A dtype of DTYPES says of at least how many weights below
    `_LARGEST` it lets noise change.
    """
    share = max(_least_share(elements, changed), _resolved(asked, dtype))
    variance = 3 + _COARSER_SQUARE * (1 - share) - share**2
    most = 1 + _COARSER * (1 - share)
    low = share * _quantile(2 * share**2 * elements / variance, -_ONE_IN_A_MILLION) if share else 0.0
    high = most * _quantile(2 * most**2 * elements / variance, _ONE_IN_A_MILLION)
    return StdBand(asked * sqrt(low), asked * sqrt(high))


def least_changed(asked: float, elements: int, dtype: str) -> int:
    """Compute how many of `elements` weights noise of this standard deviation changes, at least.

    That holds but for one sync in a million. 0 where the dtype is not known, or too coarse to say anything of weights
    up to `_LARGEST`.
    """
    share = _resolved(asked, dtype)
    return max(0, int(elements * share - _ONE_IN_A_MILLION * sqrt(share * (1 - share) * elements) - _NEVER_SEEN))


def _least_share(elements: int, changed: int | None) -> float:
    """Return the least share of weights that noise changes in the mean, given how many it did change."""
    if changed is None:
        return 0.0
    seen = min(changed / elements, 1.0)
    return max(0.0, seen - _ONE_IN_A_MILLION * sqrt(seen * (1 - seen) / elements) - _NEVER_SEEN / elements)


def _resolved(sigma: float, dtype: str) -> float:
    return survival(sigma, dtype, {_LARGEST: 1}).changed if dtype in _FORMATS and sigma > 0 else 0.0


def _quantile(freedom: float, z: float) -> float:
    """Chi-square over its degrees of freedom, at a quantile of the normal distribution; never below 0."""
    part = 2 / (9 * freedom)
    return max(0.0, 1 - part + z * sqrt(part)) ** 3


def _gaps(weight: float, dtype: str) -> tuple[float, float]:
    """Return the distance to the next number of the dtype away from zero, and towards it."""
    bits, smallest = _FORMATS[dtype]
    mantissa, exponent = frexp(weight)  # weight = mantissa * 2^exponent, mantissa in [0.5, 1)
    binade = max(exponent - 1, smallest) if weight else smallest
    gap = 2.0 ** (binade - bits + 1)
    below = gap / 2 if mantissa == 0.5 and binade > smallest else gap
    return gap, below


def _beyond(deviations: float) -> float:
    """P(Z > deviations) of the standard normal distribution."""
    return erfc(deviations / sqrt(2)) / 2


def _moved(gap: float, sigma: float) -> float:
    """Compute the mean square of the move to one side, in whole gaps."""
    if gap < _FINE * sigma:
        return (sigma**2 + gap**2 / 12) / 2
    most = int(_REACH * sigma / gap) + 1
    return gap**2 * sum((2 * k - 1) * _beyond((k - 0.5) * gap / sigma) for k in range(1, most + 1))
