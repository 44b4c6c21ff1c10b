"""Noise whose sigma follows a measurement of the run itself: larger while that is below its target, else smaller.

The rule is that of Plappert et al., "Parameter space noise for exploration" (arXiv 1706.01905, section 3), with
1 + gain for their factor alpha of 1.01. They measure how far the noisy policy is from the clean one; the gap between
rollout and actor is such a distance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdaptiveSigma:
    """What sigma follows: `target` is "gap" or "entropy", in whose unit `value` is; sigma stays within the bounds."""

    target: str
    value: float
    gain: float
    sigma_min: float
    sigma_max: float

    def after(self, sigma: float, measured: float | None) -> float:
        """Compute sigma of the step after one with `sigma` and this measurement; None, nothing measured, keeps it.

        The payload computes the same (rlx/payload/rlx_aqn_settings.py).
        """
        if measured is None:
            return sigma
        moved = sigma * (1 + self.gain) if measured <= self.value else sigma / (1 + self.gain)
        return min(max(moved, self.sigma_min), self.sigma_max)

    def follow(self, planned: Sequence[float], measured: Mapping[int, float]) -> tuple[float, ...]:
        """Compute sigma of each step from 1. `planned`: 0 for steps free of noise, and where the first noise begins."""
        sigmas: list[float] = []
        last = 0.0
        for step, sigma in enumerate(planned, start=1):
            if sigma > 0:
                last = self.after(last, measured.get(step - 1)) if last > 0 else sigma
            sigmas.append(last if sigma > 0 else 0.0)
        return tuple(sigmas)
