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

from collections.abc import Iterator
from statistics import median

from rlx.evidence.charges import felt
from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.charges.dose_response import WitnessOutcome
from rlx.evidence.charges.gap_test import GapTest
from rlx.evidence.charges.noise_by_step import Application
from rlx.evidence.charges.promised_noise import promise_of
from rlx.evidence.grammars import grammars
from rlx.evidence.run_evidence import LOG, Evidence
from rlx.evidence.verdict import Charge, at_steps, counted, dissent, unverified
from rlx.model import Link

# A step all of whose samples are masked has a mean of nothing; more than this share of the steps is no accident.
_FEW = 0.05


def check(given: CheckInput) -> Iterator[Charge]:
    """Charge where the gap does not agree with the record. Nothing where the plan cannot show noise in the engine."""
    if given.noise is None:
        return
    noise, found, test = given.noise
    promise = promise_of(noise)
    can_be_felt = not promise.links or promise.promises(Link.FELT)
    if found.effective and can_be_felt:
        # More steps may still settle what is inconclusive now, and the probe shows noise too small for the gap.
        must_speak = given.state.is_terminal and not felt.is_shown(given.evidence, found)
        yield from _disagreement(given.evidence, test, given.expectations.reports_witness, must_speak)


def _disagreement(evidence: Evidence, test: GapTest, reported: bool, must_speak: bool) -> Iterator[Charge]:
    """`reported`: the back-end logs this metric at all. `must_speak`: a gap that is inconclusive is charged, too."""
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
    elif test.outcome is WitnessOutcome.INCONCLUSIVE and must_speak:
        yield unverified("RLX608", _why_inconclusive(test, reported), _fix(evidence, test, reported))


def sentence(test: GapTest, found: Application) -> str:
    """Say that the witnesses agree; of a log that alone tells of the noise, what the gap cannot exclude."""
    words = f"witnesses agree (p = {test.p:.1g})"
    if all(event.source == LOG for step in found.effective for event in found.at(step)):
        words += ", which excludes neither other layers nor a process without noise"
    return words


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
