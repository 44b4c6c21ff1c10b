"""Find noise that was added to noise: it must start from clean weights, or it grows while its sigma falls.

A sync of LoRA adapters leaves the base weights as they are, noise and all (zhshgmail/verl before cfb21db5). From then
on the fork tells at each sync whether it restored them. The gap between rollout and actor tells it too: where sigma has
fallen to a tenth, the gap should have fallen with it, at least to what it is without noise. If by ranks it is larger
than at the strongest sigma *and* larger than without noise, noise has added up, or the gap drifts for other reasons and
is no witness of noise. How much it may drift the steps without noise of the same run say: the steepest drift that fits
them is taken out, and both must still hold. Where a control is given whose own gap rises by the same test, each value
is divided by the control's; one that does not rise explains nothing, and its scatter would hide what adds up. Nothing
is said where even the strongest noise need not show above the gap without it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.charges.dose_response import ALPHA, shows
from rlx.evidence.charges.gap_test import gaps_of, least_gap
from rlx.evidence.charges.noise_by_step import Application
from rlx.evidence.charges.promised_noise import sigma_at
from rlx.evidence.charges.rank_test import p_larger
from rlx.evidence.log_grammar import CLEAN, NOISY
from rlx.evidence.run_evidence import Evidence, NoiseEvent
from rlx.evidence.verdict import Charge, at_steps, invalid, unverified

_WEAK = 0.1  # of the strongest sigma: its gap would be a tenth above that without noise
_Z = 2.326  # one-sided 99 % of the normal distribution
_RESTORE = "use a version that restores clean weights before each noise (cfb21db5), or aqn.provider: payload"


def check(given: CheckInput) -> Iterator[Charge]:
    if given.noise is None:
        return
    found = given.noise.application
    yield from _not_restored(found)
    if not found.is_adaptive:  # there sigma falls where the gap is large
        yield from _stays_while_sigma_falls(given.evidence, found, given.control_gap, given.expectations.witness)


def _not_restored(found: Application) -> Iterator[Charge]:
    """Charge only a log that speaks of clean weights at all; older versions and the payload do not."""
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
    """Read what workers tell of one sync. Ray may fold their lines: one that speaks is enough."""
    said = {event.found for event in events}
    return NOISY if NOISY in said else CLEAN if CLEAN in said else ""


def _stays_while_sigma_falls(
    evidence: Evidence, found: Application, control: Mapping[int, float] | None, witness: str
) -> Iterator[Charge]:
    control = control if _rises(found, control) else None
    gaps = gaps_of(evidence, control, witness)
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
            "noise may add up, or something else drifts: the gap between rollout and actor is "
            f"{_median(gaps, weak):.2g} where sigma is {sigma_at(found.sigmas, weak[0]):.2g} or less, more than the "
            f"{_median(gaps, strong):.2g} at sigma {sigma_at(found.sigmas, strong[0]):.2g} and the "
            f"{_median(gaps, clean):.2g} without noise (p = {p:.1g})",
            "are clean weights put back before each noise? with LoRA a sync does not",
            weak[0],
        )


def _rises(found: Application, control: Mapping[int, float] | None) -> bool:
    """Tell whether the control's gap, which no noise moves, is larger where the run's sigma is small."""
    gaps = {step: gap for step, gap in (control or {}).items() if math.isfinite(gap)}
    strong, weak = _extremes(found, gaps)
    return p_larger([gaps[step] for step in weak], [gaps[step] for step in strong]) < ALPHA


def _extremes(found: Application, gaps: Mapping[int, float]) -> tuple[list[int], list[int]]:
    """The steps with a gap that have the strongest noise, and those that have a tenth of it or less."""
    sigmas = {step: sigma_at(found.sigmas, step) for step in found.effective if step in gaps}
    top = max(sigmas.values(), default=0.0)
    return [step for step in sigmas if sigmas[step] == top], [step for step in sigmas if sigmas[step] <= _WEAK * top]


def _larger(values: Mapping[int, float], weak: Sequence[int], strong: Sequence[int], clean: Sequence[int]) -> float:
    """The p-value of weak against strong or clean, whichever is larger."""
    return max(p_larger([values[step] for step in weak], [values[step] for step in each]) for each in (strong, clean))


def _median(gaps: Mapping[int, float], steps: Sequence[int]) -> float:
    return statistics.median(gaps[step] for step in steps)


def _steepest(values: Mapping[int, float]) -> float:
    """The steepest drift that fits the values: Sen's upper limit of 99 % for the slope; 0 for less than two values.

    P. K. Sen, J. Amer. Statist. Assoc. 63 (1968) 1379-1389: a rank among the slopes between all pairs of steps.
    """
    slopes = sorted((values[late] - values[early]) / (late - early) for early, late in combinations(sorted(values), 2))
    n = len(values)
    rank = (len(slopes) + _Z * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)) / 2
    return slopes[min(math.ceil(rank), len(slopes) - 1)] if slopes else 0.0
