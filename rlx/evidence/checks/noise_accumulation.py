"""Detect noise that was added to noise: each noise must start from clean weights.

A sync of LoRA adapters does not change the base weights, including their noise (zhshgmail/verl before cfb21db5). Later
versions of the fork log at each sync whether they restored them. The gap between rollout and actor shows it too: where
sigma has fallen to a tenth, the gap should have fallen with it, at least to its value without noise. If by ranks it is
larger than at the strongest sigma *and* larger than without noise, noise has accumulated, or the gap drifts for other
reasons and cannot show noise. The steps without noise of the same run limit the drift: the steepest drift that fits
them is subtracted, and both must still be true. If a control is given whose own gap rises by the same test, each value
is divided by the control's; a control without a rise explains nothing, and its scatter would hide accumulation. Nothing
is reported where even the strongest noise need not be visible above the gap without it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.checks.gap_test import ALPHA, gaps_of, least_gap, p_larger, shows
from rlx.evidence.checks.noise_by_step import Application, sigma_at
from rlx.evidence.log_grammar import CLEAN, NOISY
from rlx.evidence.run_evidence import Evidence, NoiseEvent
from rlx.evidence.verdict import CheckFinding, at_steps, invalid, unverified

_WEAK = 0.1  # of the strongest sigma: its gap would be a tenth above that without noise
_Z = 2.326  # one-sided 99 % of the normal distribution
_RESTORE = "use a version that restores clean weights before each noise (cfb21db5), or aqn.provider: payload"


def check(given: CheckInput) -> Iterator[CheckFinding]:
    if given.noise is None:
        return
    found = given.noise.application
    yield from _not_restored(found)
    if not found.is_adaptive:  # there sigma falls where the gap is large
        yield from _stays_while_sigma_falls(given.evidence, found, given.control_gap, given.expectations.witness)


def _not_restored(found: Application) -> Iterator[CheckFinding]:
    """Check only a log with lines about clean weights; older versions and the payload have none."""
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
            f"{len(later) - len(silent)} of {len(later)} steps the log states it",
            _RESTORE,
            silent[0],
        )


def _weights_before(events: Sequence[NoiseEvent]) -> str:
    """Read what workers log about one sync. Ray may fold their lines: one line is sufficient."""
    said = {event.found for event in events}
    return NOISY if NOISY in said else CLEAN if CLEAN in said else ""


def _stays_while_sigma_falls(
    evidence: Evidence, found: Application, control: Mapping[int, float] | None, substitute: str
) -> Iterator[CheckFinding]:
    own = {step: gap for step, gap in (control or {}).items() if math.isfinite(gap)}
    strong, weak = _extremes(found, own)
    # A control explains a rise only if its own gap, which no noise changes, is larger where the run's sigma is small.
    if p_larger([own[step] for step in weak], [own[step] for step in strong]) >= ALPHA:
        control = None
    gaps = gaps_of(evidence, control, substitute)
    strong, weak = _extremes(found, gaps)
    clean = [step for step in found.quiet if step in gaps]
    if not (strong and weak and clean) or not shows(least_gap(found, strong[0], control), _median(gaps, clean)):
        return
    if (p := _larger(gaps, weak, strong, clean)) < ALPHA:
        # Only now: all pairs of many steps are a lot.
        drift = _steepest({step: gaps[step] for step in clean})
        level = {step: gap - drift * step for step, gap in gaps.items()}
        p = max(p, _larger(level, weak, strong, clean))
    if p < ALPHA:
        yield unverified(
            "RLX618",
            "noise may accumulate, or something else drifts: the gap between rollout and actor is "
            f"{_median(gaps, weak):.2g} where sigma is {sigma_at(found.sigmas, weak[0]):.2g} or less, more than the "
            f"{_median(gaps, strong):.2g} at sigma {sigma_at(found.sigmas, strong[0]):.2g} and the "
            f"{_median(gaps, clean):.2g} without noise (p = {p:.1g})",
            "check that clean weights are restored before each noise; with LoRA a sync does not restore them",
            weak[0],
        )


def _extremes(found: Application, gaps: Mapping[int, float]) -> tuple[list[int], list[int]]:
    """Return the steps with the strongest noise, and those with a tenth of it or less, that have a gap."""
    sigmas = {step: sigma_at(found.sigmas, step) for step in found.effective if step in gaps}
    top = max(sigmas.values(), default=0.0)
    return [step for step in sigmas if sigmas[step] == top], [step for step in sigmas if sigmas[step] <= _WEAK * top]


def _larger(values: Mapping[int, float], weak: Sequence[int], strong: Sequence[int], clean: Sequence[int]) -> float:
    """Return the p-value of weak against strong or clean, whichever is larger."""
    return max(p_larger([values[step] for step in weak], [values[step] for step in each]) for each in (strong, clean))


def _median(gaps: Mapping[int, float], steps: Sequence[int]) -> float:
    return statistics.median(gaps[step] for step in steps)


def _steepest(values: Mapping[int, float]) -> float:
    """Return the steepest drift that fits the values: Sen's upper limit of 99 % for the slope; 0 for one value.

    P. K. Sen, J. Amer. Statist. Assoc. 63 (1968) 1379-1389: a rank among the slopes between all pairs of steps.
    """
    slopes = sorted((values[late] - values[early]) / (late - early) for early, late in combinations(sorted(values), 2))
    n = len(values)
    rank = (len(slopes) + _Z * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)) / 2
    return slopes[min(math.ceil(rank), len(slopes) - 1)] if slopes else 0.0
