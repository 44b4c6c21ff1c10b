"""Check the second, independent signal of noise: the rollout samples from other weights than the actor's.

Noise on the rollout's weights moves its token probabilities away from those that the actor computes for the same
tokens; a back-end may log the mean distance (`Role.PROBABILITY_GAP` of its log grammar). This is measured far from the
code that adds the noise, so it is independent of what that code records.

The size of the distance without noise depends on everything else: 1e-7 in float32 on one machine, 4e-4 with a merged
LoRA, 4e-3 in healthy bfloat16 runs. So there is no absolute threshold: the doses of one run are compared with each
other and with its steps without noise, and step with step (`gap_test`). If the gap of a control is given, each value is
first divided by the control's at the same step, which removes general changes in the course of training. In bfloat16
sigma 0.05 is visible, 0.01 hardly, and nothing below: there the gap is inconclusive.

It never shows which layers had noise, or whether every process had it.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from rlx.evidence.checks import noise_response
from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.checks.gap_test import GapOutcome, GapTest
from rlx.evidence.checks.noise_by_step import Application, noise_expectation
from rlx.evidence.grammars import grammars
from rlx.evidence.run_evidence import LOG, Evidence
from rlx.evidence.verdict import CheckFinding, at_steps, contradiction, counted, unverified
from rlx.model import Link

# A step with all samples masked has no mean; more than this share of the steps is not accidental.
_FEW = 0.05


def check(given: CheckInput) -> Iterator[CheckFinding]:
    """Report a gap that does not agree with the record. Nothing where the plan cannot show noise in the engine."""
    if given.noise is None:
        return
    noise, found, test = given.noise
    promise = noise_expectation(noise)
    can_be_felt = not promise.links or promise.expects(Link.FELT)
    if found.effective and can_be_felt:
        # More steps may still settle what is inconclusive now, and the probe shows noise too small for the gap.
        must_speak = given.state.is_terminal and not noise_response.is_shown(given.evidence, found)
        yield from _disagreement(given.evidence, test, given.expectations.reports_signal, must_speak)


def _disagreement(evidence: Evidence, test: GapTest, reported: bool, must_speak: bool) -> Iterator[CheckFinding]:
    """Compare the signals. `reported`: the back-end logs this metric. `must_speak`: report an inconclusive gap, too."""
    if test.off:
        when = "later" if test.off > 0 else "earlier"
        yield contradiction(
            "RLX609",
            f"the signals disagree: the gap between rollout and actor follows sigma one step {when} than the record "
            f"says ({_numbers(test)})",
            "check that each rollout gets the noise of its own step",
        )
    elif test.outcome is GapOutcome.DISAGREES:
        yield contradiction(
            "RLX609",
            "the signals disagree: noise was recorded, but rollout and actor are not further apart than without it "
            f"({_numbers(test)})",
            "check that the model that gets the noise is the one that generates",
        )
    elif len(test.broken) > max(1, _FEW * len(test.response.steps)):
        yield unverified(
            "RLX608",
            f"the second signal is not a finite number: {test.metric} at {at_steps(test.broken)}, where noise was "
            "recorded",
            "check whether the engine returns infinite probabilities with this noise; use a lower sigma, or float32",
            test.broken[0],
        )
    elif test.outcome is GapOutcome.INCONCLUSIVE and must_speak:
        yield unverified("RLX608", _why_inconclusive(test, reported), _fix(evidence, test, reported))


def sentence(test: GapTest, found: Application) -> str:
    """State that the signals agree; if the log alone shows the noise, also what the gap cannot exclude."""
    words = f"two signals agree (p = {test.p:.1g})"
    if all(event.source == LOG for step in found.effective for event in found.at(step)):
        words += ", which does not exclude other layers or a process without noise"
    return words


def _fix(evidence: Evidence, test: GapTest, reported: bool) -> str:
    if not reported:
        return "; ".join(
            f"{each.title} logs it with {each.gap_setting}" for each in grammars(evidence.backend) if each.gap_setting
        )
    if test.response.clean and test.response.strong and not test.response.powered:
        return "a larger sigma, or float32: such small noise is not visible above the gap without noise"
    return "more steps with and without noise, or compare it with its control (rlx compare)"


def _why_inconclusive(test: GapTest, reported: bool) -> str:
    if not reported:
        return "no second signal: this back-end does not log the gap between rollout and actor"
    if not test.response.strong:
        return f"no second signal: {test.metric} is missing at the noisy steps"
    if not test.response.clean:
        return f"no second signal: {test.metric} is missing at the steps without noise"
    return f"the second signal is inconclusive: {_numbers(test)}"


def _numbers(test: GapTest) -> str:
    """Write `median gap 0.007 at 4 steps of the strongest noise, 0.0003 at 12 of weaker, 1e-07 at 4 clean, p = …`."""
    response = test.response
    groups = [
        (response.strong, f"{counted(len(response.strong), 'step')} of the strongest noise"),
        (response.weak, f"{len(response.weak)} of weaker"),
        (response.clean, f"{len(response.clean)} clean"),
    ]
    medians = [f"{median(step.gap for step in steps):.2g}{test.unit} at {words}" for steps, words in groups if steps]
    return f"median gap {', '.join(medians)}, p = {test.p:.2g}"
