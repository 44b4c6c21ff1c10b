"""The error rates that every test here works with, and the correction for several treatments."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

ALPHA = 0.05
POWER = 0.80
Z_TWO_SIDED = NormalDist().inv_cdf(1 - ALPHA / 2)
Z_POWER = NormalDist().inv_cdf(POWER)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """The p-values corrected for being several (Holm 1979), in the order given."""
    count, highest = len(p_values), 0.0
    corrected = [0.0] * count
    for rank, index in enumerate(sorted(range(count), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (count - rank) * p_values[index]))
        corrected[index] = highest
    return tuple(corrected)
