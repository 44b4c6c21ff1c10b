"""Dunnett's test: several treatments against one control, one variance for all of them.

`scipy.stats.dunnett` has the same p-values, but integrates over random points and takes no margin; the tests hold these
to it and to the published tables. Source: Dunnett (1955), JASA 50:1096-1121; for unequal sizes Hsu (1996), Multiple
Comparisons, chapter 3. Statistics are differences over their standard errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

TWO_SIDED: tuple[int, ...] = ()
_LARGEST = 1000.0
_NODES = 80
_TAIL = 1e-13


def loadings(control_runs: int, treatment_runs: Sequence[int]) -> tuple[float, ...]:
    """Return the share of the control in each statistic, one a treatment: sqrt(n / (n + n of the control)), 0.71 for
    equal sizes. The statistics of two treatments correlate by the product of theirs.
    """
    return tuple((runs / (runs + control_runs)) ** 0.5 for runs in treatment_runs)


def same_side(treatments: int) -> tuple[int, ...]:
    """Return the sides for non-inferiority: every treatment can be wrongly called good enough, on the same side."""
    return (1,) * treatments


def opposite_sides(treatments: int) -> tuple[int, ...]:
    """Return the sides for equivalence in the worst case: half of the treatments at either end of the margin.

    Statistics of opposite signs correlate negatively, so that one of them errs more often (Slepian's inequality).
    """
    return tuple(1 if index % 2 else -1 for index in range(treatments))


def p_value(statistic: Any, df: float, shares: Sequence[float], sides: Sequence[int] = TWO_SIDED) -> Any:
    """Return the chance that any of the treatments gives this statistic or a larger one where none differs.

    `statistic`: a number or an array of shape (m,), absolute values in the two-sided test. `shares` are `loadings`;
    `sides` has a sign for each treatment in a one-sided test. Returns the same shape.
    """
    import numpy as np

    values = np.atleast_1d(np.asarray(statistic, float))
    tail = np.clip(1 - _all_below(values, df, shares, sides), 0.0, 1.0)
    return tail if np.ndim(statistic) else float(tail[0])


def critical(alpha: float, df: float, shares: Sequence[float], sides: Sequence[int] = TWO_SIDED) -> float:
    """Return the statistic with the p-value `alpha`. Half the simultaneous interval is this many standard errors."""
    from scipy.optimize import brentq

    return float(brentq(lambda value: p_value(value, df, shares, sides) - alpha, 0.0, _LARGEST, xtol=1e-10))


def _all_below(limits: Any, df: float, shares: Sequence[float], sides: Sequence[int]) -> Any:
    """Return the chance that all statistics are below each limit, given the control's value and the spread,
    integrated.
    """
    import numpy as np
    from scipy.special import ndtr

    (control, by_control), (spread, by_spread) = normal_nodes(), spread_nodes(df)
    reach = limits[:, None, None] * spread[:, None]
    below = np.ones(())
    for index, share in enumerate(shares):
        rest = np.sqrt(1 - share**2)
        if sides:
            below = below * ndtr((reach - sides[index] * share * control) / rest)
        else:
            below = below * (ndtr((reach - share * control) / rest) - ndtr((-reach - share * control) / rest))
    return (below @ by_control) @ by_spread


@cache
def normal_nodes() -> tuple[Any, Any]:
    """Return values of a standard normal variable and their weights (Gauss and Hermite), each of shape (nodes,).

    They are deterministic, unlike integration by random points: a p-value must be the same wherever it is computed.
    """
    import numpy as np

    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return nodes, weights / weights.sum()


@cache
def spread_nodes(df: float) -> tuple[Any, Any]:
    """Return observed over true standard deviations with `df` degrees of freedom, and weights; each of shape (nodes,).

    df times its square follows chi-square: Gauss and Legendre's nodes between the quantiles 1e-13 of both ends.
    """
    import numpy as np
    from scipy.special import gammainccinv, gammaincinv

    least, most = (float(np.sqrt(2 * quantile(df / 2, _TAIL) / df)) for quantile in (gammaincinv, gammainccinv))
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    spread = (most + least + (most - least) * nodes) / 2
    height = (df - 1) * np.log(spread) - df * spread**2 / 2
    density = weights * np.exp(height - height.max())
    return spread, density / density.sum()
