"""Measure how the distance between rollout and actor responds to the recorded noise, in a value for several checks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rlx.evidence.charges.dose_response import DosedStep, DoseResponse, WitnessOutcome
from rlx.evidence.charges.noise_by_step import Application
from rlx.evidence.charges.promised_noise import sigma_at
from rlx.evidence.charges.stage_alignment import steps_off
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import metric_of, series
from rlx.evidence.run_evidence import Evidence

# The least gap that noise of standard deviation 1 gives: half of the least that was measured at the strongest sigma of
# a schedule, 6.0e-3 at 0.05 on the five norms of the tiny model (0.4 to 1.1 on larger ones). Fewer layers give less.
LEAST_GAP = 0.06
_LEAST_LAYERS = 5
# The same for the mean log ratio, which goes with the square: 3e-3 was the least at 0.05, and 1e-5 at 0.0005.
LEAST_LOG_RATIO = 0.6


@dataclass(frozen=True, slots=True)
class GapTest:
    """How the gap responds to the recorded noise, and by how many steps the two are off each other; 0 for none."""

    response: DoseResponse
    off: int
    unit: str = ""  # of the values: none as logged
    metric: str = ""
    broken: tuple[int, ...] = ()  # noisy steps at which it is logged as no number

    @property
    def p(self) -> float:
        return self.response.p_value

    @property
    def outcome(self) -> WitnessOutcome:
        return WitnessOutcome.DISSENTS if self.off else self.response.outcome


def gap_test(
    evidence: Evidence, found: Application, control: Mapping[int, float] | None = None, witness: str = ""
) -> GapTest:
    """Hold the gap of each step against its dose. `control`: the control's gap by step. `witness`: as in the plan.

    A mean log ratio, which stands in for the gap, has a sign and is about 0 in a control: no unit for anything.
    """
    control = None if witness else control
    gaps = gaps_of(evidence, control, witness)
    effective, clean = set(found.effective), {step for step in found.quiet if not _is_noisy(found, step)}
    steps = [
        DosedStep(
            step,
            gap,
            _dose(found, step) if step in effective else 0.0,
            least_gap(found, step, control, witness) if step in effective else 0.0,
        )
        for step, gap in sorted(gaps.items())
        if step in effective or step in clean
    ]
    unit, metric = "" if control is None else " × the control's", gap_metric(evidence, witness)
    logged = series(evidence, metric)
    broken = tuple(step for step in found.effective if not math.isfinite(logged.get(step, 0.0)))
    response = DoseResponse(steps, is_relative=control is not None)
    return GapTest(response, steps_off(steps), unit, metric, broken)


def _is_noisy(found: Application, step: int) -> bool:
    return any(event.is_noisy for event in found.at(step))


def _dose(found: Application, step: int) -> float:
    """Sigma; where that follows a measurement all noise is one dose, for it may fall because the gap is large."""
    return max(found.sigmas) if found.is_adaptive else sigma_at(found.sigmas, step)


def least_gap(found: Application, step: int, control: Mapping[int, float] | None, witness: str = "") -> float:
    """The least that the noise recorded at an effective step adds to the gap, in squares, and in the gap's unit."""
    layers = max(event.layers for event in found.at(step) if event.had_effect)
    strength = found.strength(step)
    if not math.isfinite(strength):
        return 0.0
    least = LEAST_LOG_RATIO * strength**2 if witness else LEAST_GAP * strength
    return least * math.sqrt(min(layers / _LEAST_LAYERS, 1.0)) / (1.0 if control is None else control[step])


def gap_metric(evidence: Evidence, witness: str = "") -> str:
    """Find what this log calls the gap, or what stands in for it; "" where no back-end has a name for it."""
    return metric_of(evidence, Role(witness or Role.PROBABILITY_GAP))


def gaps_of(evidence: Evidence, control: Mapping[int, float] | None, witness: str = "") -> dict[int, float]:
    """The gap by step, in units of the control's at the same step where that is given; finite values only.

    What stands in for the gap is a mean with a sign, which is about 0 in a control: no unit for anything.
    """
    gaps = series(evidence, gap_metric(evidence, witness))
    if control is None or witness:
        return {step: abs(gap) for step, gap in gaps.items() if math.isfinite(gap)}
    return {
        step: gap / control[step]
        for step, gap in gaps.items()
        if math.isfinite(gap) and math.isfinite(control.get(step, math.nan)) and control[step] > 0
    }
