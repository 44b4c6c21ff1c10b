"""Nodes and weights for integrals over what chance does: a normal value, and the spread that few values show.

Deterministic, unlike integration by random points: a p-value must come out alike wherever it is computed again.
"""

from __future__ import annotations

from functools import cache
from typing import Any

_NODES = 80
_TAIL = 1e-13


@cache
def normal_nodes() -> tuple[Any, Any]:
    """Values of a standard normal variable and their weights (Gauss and Hermite), each of shape (nodes,)."""
    import numpy as np

    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return nodes, weights / weights.sum()


@cache
def spread_nodes(df: float) -> tuple[Any, Any]:
    """Observed over true standard deviation with `df` degrees of freedom, and weights; each of shape (nodes,).

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
