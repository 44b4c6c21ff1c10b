"""Check that there was something to learn: finite losses and gradients, gradients other than 0, rewards that differ.

Without these a run trained on nothing, with or without noise; a control that was not trained is not a control. These
are the only rules on what the metrics show of a training: the verdict and the diagnosis of a run or of a bare log use
them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.checks.noise_by_step import training_steps
from rlx.evidence.diagnosis.collapse import collapses, validation_collapses
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import finite, metric_names, metric_of, series
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.verdict import CheckFinding, VerdictStatus, at_steps, counted, invalid, remark, unverified
from rlx.model import Expectations, Severity

NOT_FINITE = "RLX654"
INVALID = (NOT_FINITE, "RLX655")
# The metrics of every update; and parts of the names of others that must be finite.
_UPDATE = (Role.POLICY_LOSS, Role.GRAD_NORM, Role.REWARD, Role.SCORE)
_ALSO_FINITE = ("loss", "grad_norm", "entropy")
_LOST_NUMBERS = "a lower learning rate or stricter clipping; float32 where bfloat16 overflows"
# Healthy training skips single updates, but not more than this share of them.
_FEW = 0.05
# Shares of the steps that have something to learn from.
_SEVERAL, _MOST = 0.25, 0.5


def check(given: CheckInput) -> Iterator[CheckFinding]:
    """Report steps without anything to learn, and remark on what else went wrong in the training."""
    # Before the run has ended, a later step may be sound.
    evidence, over = given.evidence, given.state.is_terminal
    yield from _not_finite(evidence, given.expectations, over)
    yield from _others_not_finite(evidence)
    if over:
        yield from _no_gradient(evidence)
        yield from _lost_gradient(evidence, given.expectations)
        yield from _no_spread(evidence)
    yield from (CheckFinding(VerdictStatus.VALID, finding) for finding in collapses(evidence))


def _not_finite(evidence: Evidence, expectations: Expectations, over: bool) -> Iterator[CheckFinding]:
    steps, broken = training_steps(evidence), dict[int, str]()
    for role in _UPDATE:
        name = metric_of(evidence, role)
        broken |= {step: name for step, value in series(evidence, name).items() if step and not math.isfinite(value)}
    if not broken:
        return
    total = max(expectations.total_steps or 0, len(steps))
    to_the_end = over and steps[-1] in broken
    names = ", ".join(sorted(set(broken.values())))
    message = f"not finite at {at_steps(broken)}, {len(broken)} of {counted(total, 'step')}: {names}"
    if to_the_end or len(broken) > max(1, _FEW * total):
        yield invalid(NOT_FINITE, f"{message}{', to the end' if to_the_end else ''}", _LOST_NUMBERS, min(broken))
    elif any((found.step or 0) >= min(broken) for found in validation_collapses(evidence)):
        message += ", and the validation collapsed after it"
        yield unverified(NOT_FINITE, message, _LOST_NUMBERS, min(broken))
    else:
        yield remark(NOT_FINITE, Severity.WARNING, f"{message}; all others are finite", _LOST_NUMBERS, min(broken))


def _others_not_finite(evidence: Evidence) -> Iterator[CheckFinding]:
    """Remark on other losses, gradient norms and entropies, such as the loss of a critic."""
    broken = {
        key: steps
        for key in metric_names(evidence) - {metric_of(evidence, role) for role in _UPDATE}
        if any(part in key for part in _ALSO_FINITE)
        and (steps := [step for step, value in series(evidence, key).items() if not math.isfinite(value)])
    }
    if broken:
        key, steps = min(broken.items(), key=lambda item: (item[1][0], item[0]))
        others = f", and {counted(len(broken) - 1, 'more metric')}" if len(broken) > 1 else ""
        yield remark(
            "RLX893",
            Severity.WARNING,
            f"{key} is not a number from step {steps[0]} on, in {len(steps)} of {len(evidence.metrics)} steps{others}",
            _LOST_NUMBERS,
            steps[0],
        )


def _no_gradient(evidence: Evidence) -> Iterator[CheckFinding]:
    """Report gradients, or learning rates, that are all zero: either leaves the weights unchanged."""
    for role in (Role.GRAD_NORM, Role.LEARNING_RATE):
        name = metric_of(evidence, role)
        values = finite(series(evidence, name))
        if values and not any(values.values()):
            yield invalid(
                "RLX655",
                f"nothing was trained: {name} is 0 at each of {counted(len(values), 'step')}",
                "check that the rewards of a prompt's answers differ, and that the optimizer gets the learning rate",
                min(values),
            )


def _lost_gradient(evidence: Evidence, expectations: Expectations) -> Iterator[CheckFinding]:
    """Report gradients of 0 at steps whose advantages differ, where others are not 0.

    A correction that rejects samples may leave nothing to learn from, and has its own metrics.
    """
    gradients, high, low = (
        finite(series(evidence, metric_of(evidence, role)))
        for role in (Role.GRAD_NORM, Role.HIGHEST_ADVANTAGE, Role.LOWEST_ADVANTAGE)
    )
    due = [step for step in gradients if step > 0 and step in high and step in low and high[step] > low[step]]
    lost = [step for step in due if not gradients[step]]
    if not any(gradients.values()) or len(lost) <= _SEVERAL * len(due):
        return
    name = metric_of(evidence, Role.GRAD_NORM)
    message = f"{name} is 0 at {at_steps(lost)}, {len(lost)} of {counted(len(due), 'step')} whose advantages differ"
    fix = "find what skips the backward pass or masks all tokens: search the log from that step, and launch again"
    if len(lost) > _MOST * len(due) and expectations.correction is None:
        yield invalid("RLX791", f"mostly not trained: {message}", fix, min(lost))
    else:
        yield remark("RLX791", Severity.WARNING, message, fix, min(lost))


def _no_spread(evidence: Evidence) -> Iterator[CheckFinding]:
    """Report steps in which no group had an advantage: the share of single groups is not logged."""
    known, flat = steps_without_spread(evidence)
    if not flat or 2 * len(flat) <= len(known):
        return
    message = f"all answers to a prompt had equal scores at {len(flat)} of {counted(len(known), 'step')}"
    fix = "rewards that distinguish answers, prompts of another difficulty, or more samples per prompt"
    if len(flat) == len(known):
        yield unverified("RLX656", f"{message}: there was nothing to learn", fix, min(flat))
    else:
        yield remark("RLX656", Severity.WARNING, f"{message}: little to learn", fix, min(flat))


def steps_without_spread(evidence: Evidence) -> tuple[set[int], set[int]]:
    """Return the steps whose rewards or advantages are logged, and those of them at which all are equal."""
    known, flat = set[int](), set[int]()
    for high, low, same in (
        (Role.HIGHEST_REWARD, Role.LOWEST_REWARD, None),
        (Role.HIGHEST_ADVANTAGE, Role.LOWEST_ADVANTAGE, 0.0),
    ):
        highest, lowest = (finite(series(evidence, metric_of(evidence, role))) for role in (high, low))
        both = highest.keys() & lowest.keys()
        known |= both
        flat |= {step for step in both if highest[step] == lowest[step] and same in (None, lowest[step])}
    return known, flat
