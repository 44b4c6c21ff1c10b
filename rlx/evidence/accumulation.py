"""Was noise added to noise? It must start from clean weights each time, or it grows while its sigma falls.

A sync of LoRA adapters leaves the base weights as they are, noise and all (zhshgmail/verl before cfb21db5). From then
on the fork tells at each sync whether it restored them. The gap between rollout and actor tells it too: it grows from
stage to stage although sigma falls. How much it drifts for other reasons the steps without noise of the same run say:
their drift is taken out first. Where a control is given, each value is divided by the control's.

Kendall's test of a trend (M. G. Kendall, Rank Correlation Methods, 1955; H. B. Mann, Econometrica 13 (1945) 245-259):
under "no trend" the number of pairs in order has mean 0 and variance n(n-1)(2n+5)/18.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from rlx.evidence.applied import Application
from rlx.evidence.aqn_lines import CLEAN, NOISY
from rlx.evidence.gap import gaps_of
from rlx.evidence.schedule import sigma_at
from rlx.evidence.values import Evidence, NoiseEvent
from rlx.evidence.verdict import Charge, at_steps, invalid, unverified

ALPHA = 0.001
_LEAST = 8  # values: with fewer the normal approximation is no good
_RESTORE = "use a version that restores clean weights before each noise (cfb21db5), or aqn.provider: payload"


def charges(evidence: Evidence, found: Application, control: Mapping[int, float] | None = None) -> Iterator[Charge]:
    yield from _not_restored(found)
    yield from _grows_while_sigma_falls(evidence, found, control)


def _not_restored(found: Application) -> Iterator[Charge]:
    """Only for a log that speaks of clean weights at all; older versions and the payload do not."""
    states = {step: _weights_before(found.at(step)) for step in found.noisy}
    if not any(states.values()):
        return
    later = list(states)[1:]  # the first noise cannot come on top of any
    if on_noise := [step for step in later if states[step] == NOISY]:
        yield invalid(
            "RLX617",
            f"noise was added to noise at {at_steps(on_noise)}: the weights could not be restored",
            _RESTORE,
            on_noise[0],
        )
    if silent := [step for step in later if not states[step]]:
        yield unverified(
            "RLX617",
            f"nothing shows that the weights were clean before the noise at {at_steps(silent)}: at "
            f"{len(later) - len(silent)} of {len(later)} steps the log says so",
            _RESTORE,
            silent[0],
        )


def _weights_before(events: Sequence[NoiseEvent]) -> str:
    """Several workers tell of one sync, and Ray may fold their lines: one that speaks is enough."""
    said = {event.found for event in events}
    return NOISY if NOISY in said else CLEAN if CLEAN in said else ""


def _grows_while_sigma_falls(
    evidence: Evidence, found: Application, control: Mapping[int, float] | None
) -> Iterator[Charge]:
    gaps = gaps_of(evidence, control)
    steps = [step for step in found.effective if step in gaps]
    if len(steps) < _LEAST or sigma_at(found.sigmas, steps[0]) <= sigma_at(found.sigmas, steps[-1]):
        return
    clean = {step: gaps[step] for step in found.quiet if step in gaps}
    drift = _slope(clean)
    p = max(_p_of_growth([gaps[step] for step in steps]), _p_of_growth([gaps[step] - drift * step for step in steps]))
    if p < ALPHA:
        yield unverified(
            "RLX618",
            f"the gap between rollout and actor grows while sigma falls: {gaps[steps[0]]:.2g} at step {steps[0]} "
            f"(sigma {sigma_at(found.sigmas, steps[0]):.2g}), {gaps[steps[-1]]:.2g} at step {steps[-1]} "
            f"(sigma {sigma_at(found.sigmas, steps[-1]):.2g}), p = {p:.1g}: noise may add up",
            "are clean weights put back before each noise? with LoRA a sync does not",
            steps[0],
        )


def _p_of_growth(values: Sequence[float]) -> float:
    """One-sided p of Kendall's test that later values are larger."""
    n = len(values)
    score = sum((later > earlier) - (later < earlier) for earlier, later in combinations(values, 2))
    return math.erfc((score - 1) / math.sqrt(2 * n * (n - 1) * (2 * n + 5) / 18)) / 2


def _slope(values: Mapping[int, float]) -> float:
    """Median of all slopes between two steps (H. Theil 1950, P. K. Sen 1968), 0 for one value."""
    slopes = sorted((values[late] - values[early]) / (late - early) for early, late in combinations(sorted(values), 2))
    return slopes[len(slopes) // 2] if slopes else 0.0
