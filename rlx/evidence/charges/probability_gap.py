"""Second witness: does the rollout really sample from other weights than the actor's?

Noise on the rollout's weights moves its token probabilities away from those that the actor computes for the same
tokens; a back-end may log the mean distance (`Role.PROBABILITY_GAP` of its log grammar). This is measured far from the
code that adds the noise, so it is independent of what that code says about itself.

How large the distance is without noise depends on everything else: 1e-7 in float32 on one machine, 4e-4 with a merged
LoRA, 4e-3 in healthy bfloat16 runs. So there is no absolute threshold: the doses of one run are held against each other
and against its steps without noise (`dose_response`), and step against step (`stage_alignment`). Where the gap of a
control is given, each value is divided by the control's at the same step first, which takes out what changes in the
course of training anyhow. In bfloat16 sigma 0.05 shows, 0.01 hardly, and nothing below: there the gap is inconclusive.

What it cannot tell, whatever it says: which layers, and whether every process had the noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from rlx.evidence.charges.applied import Application
from rlx.evidence.charges.dose_response import DosedStep, DoseResponse, WitnessOutcome
from rlx.evidence.charges.promised_noise import sigma_at
from rlx.evidence.charges.stage_alignment import steps_off
from rlx.evidence.grammars import grammars
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import metric_of, series
from rlx.evidence.run_evidence import LOG, Evidence
from rlx.evidence.verdict import Charge, at_steps, counted, dissent, unverified

# The least gap that noise of standard deviation 1 gives: half of the least that was measured at the strongest sigma of
# a schedule, 6.0e-3 at 0.05 on the five norms of the tiny model (0.4 to 1.1 on larger ones). Fewer layers give less.
LEAST_GAP = 0.06
_LEAST_LAYERS = 5
# The same for the mean log ratio, which goes with the square: 3e-3 was the least at 0.05, and 1e-5 at 0.0005.
LEAST_LOG_RATIO = 0.6
# A step all of whose samples are masked has a mean of nothing; more than this share of the steps is no accident.
_FEW = 0.05


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


def charges(evidence: Evidence, test: GapTest, reported: bool, *, over: bool) -> Iterator[Charge]:
    """Charge where the witness does not agree. `reported`: the back-end logs this metric at all.

    `over`: the run has ended; before that, more steps may still settle what is inconclusive now.
    """
    if test.off:
        when = "later" if test.off > 0 else "earlier"
        yield dissent(
            "RLX609",
            f"the witnesses disagree: the gap between rollout and actor follows sigma one step {when} than the record "
            f"says ({_numbers(test)})",
            "did each rollout get the noise of its own step?",
        )
    elif test.outcome is WitnessOutcome.DISSENTS:
        yield dissent(
            "RLX609",
            "the witnesses disagree: noise was recorded, but rollout and actor are no further apart than without it "
            f"({_numbers(test)})",
            "is the model that gets the noise the one that generates?",
        )
    elif len(test.broken) > max(1, _FEW * len(test.response.steps)):
        yield unverified(
            "RLX608",
            f"the second witness is no number: {test.metric} at {at_steps(test.broken)}, where noise was recorded",
            "does the engine give probabilities that are no numbers with this noise? lower sigma, or float32",
            test.broken[0],
        )
    elif test.outcome is WitnessOutcome.INCONCLUSIVE and over:
        yield unverified("RLX608", _why_inconclusive(test, reported), _fix(evidence, test, reported))


def sentence(test: GapTest, found: Application) -> str:
    """Say that the witnesses agree; of a log that alone tells of the noise, what the gap cannot exclude."""
    words = f"witnesses agree (p = {test.p:.1g})"
    if all(event.source == LOG for step in found.effective for event in found.at(step)):
        words += ", which excludes neither other layers nor a process without noise"
    return words


def gap_metric(evidence: Evidence, witness: str = "") -> str:
    """Find what this log calls the gap, or what stands in for it; "" where no back-end has a name for it."""
    return metric_of(evidence, Role(witness or Role.PROBABILITY_GAP))


def _how_to_log(evidence: Evidence) -> str:
    return "; ".join(
        f"{each.title} logs it with {each.gap_setting}" for each in grammars(evidence.backend) if each.gap_setting
    )


def _fix(evidence: Evidence, test: GapTest, reported: bool) -> str:
    if not reported:
        return _how_to_log(evidence)
    if test.response.clean and test.response.strong and not test.response.powered:
        return "a larger sigma, or float32: so small a noise does not show above this gap without it"
    return "more steps with and without noise, or compare it with its control (rlx compare)"


def _why_inconclusive(test: GapTest, reported: bool) -> str:
    if not reported:
        return "no second witness: this back-end does not report the gap between rollout and actor"
    if not test.response.strong:
        return f"no second witness: {test.metric} is missing at the noisy steps"
    if not test.response.clean:
        return f"no second witness: {test.metric} is missing at the steps without noise"
    return f"the second witness is inconclusive: {_numbers(test)}"


def _numbers(test: GapTest) -> str:
    """`median gap 0.007 at 4 steps of the strongest noise, 0.0003 at 12 of weaker, 1e-07 at 4 clean, p = 0.0005`."""
    response = test.response
    groups = [
        (response.strong, f"{counted(len(response.strong), 'step')} of the strongest noise"),
        (response.weak, f"{len(response.weak)} of weaker"),
        (response.clean, f"{len(response.clean)} clean"),
    ]
    medians = [f"{median(step.gap for step in steps):.2g}{test.unit} at {words}" for steps, words in groups if steps]
    return f"median gap {', '.join(medians)}, p = {test.p:.2g}"


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
