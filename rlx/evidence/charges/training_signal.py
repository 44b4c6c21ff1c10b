"""Was there anything to learn from: finite losses and gradients, gradients that are not all zero, rewards that differ?

Without these a run trained on nothing, noise or not; a control that was not trained is no control.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from rlx.evidence.charges.promised_noise import training_steps
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import finite, metric_of, series
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.verdict import Charge, at_steps, counted, invalid, remark, unverified
from rlx.plan import Expectations, Severity

INVALID = ("RLX654", "RLX655")
# Single skipped updates happen in healthy training; more than this share of them does not.
_FEW = 0.05


def charges(evidence: Evidence, expectations: Expectations, *, over: bool) -> Iterator[Charge]:
    """Charge steps without anything to learn. `over`: the run has ended; before that, a later step may be sound."""
    yield from _not_finite(evidence, expectations, over)
    if over:
        yield from _no_gradient(evidence)
        yield from _no_spread(evidence)


def _not_finite(evidence: Evidence, expectations: Expectations, over: bool) -> Iterator[Charge]:
    steps, broken = training_steps(evidence), dict[int, str]()
    for role in (Role.POLICY_LOSS, Role.GRAD_NORM, Role.REWARD, Role.SCORE):
        name = metric_of(evidence, role)
        broken |= {step: name for step, value in series(evidence, name).items() if step and not math.isfinite(value)}
    if not broken:
        return
    total = max(expectations.total_steps or 0, len(steps))
    to_the_end = over and steps[-1] in broken
    names = ", ".join(sorted(set(broken.values())))
    message = f"not finite at {at_steps(broken)}, {len(broken)} of {counted(total, 'step')}: {names}"
    fix = "a lower learning rate or stricter clipping; float32 where bfloat16 overflows"
    if to_the_end or len(broken) > max(1, _FEW * total):
        yield invalid("RLX654", f"{message}{', to the end' if to_the_end else ''}", fix, min(broken))
    elif _fell(evidence, min(broken)):
        yield unverified("RLX654", f"{message}, and the validation collapsed after it", fix, min(broken))
    else:
        yield remark("RLX654", Severity.WARNING, f"{message}; all others are finite", fix, min(broken))


def _fell(evidence: Evidence, step: int) -> bool:
    """Tell whether the validation collapsed at that step or later, as the diagnosis sees it."""
    from rlx.evidence.diagnosis.collapse import validation_collapses

    return any((found.step or 0) >= step for found in validation_collapses(evidence))


def _no_gradient(evidence: Evidence) -> Iterator[Charge]:
    """Charge gradients, or learning rates, that are all zero: either leaves the weights as they were."""
    for role in (Role.GRAD_NORM, Role.LEARNING_RATE):
        name = metric_of(evidence, role)
        values = finite(series(evidence, name))
        if values and not any(values.values()):
            yield invalid(
                "RLX655",
                f"nothing was trained: {name} is 0 at each of {counted(len(values), 'step')}",
                "do the rewards of a prompt's answers differ, and does the learning rate reach the optimizer?",
                min(values),
            )


def _no_spread(evidence: Evidence) -> Iterator[Charge]:
    """Charge steps of which no group had an advantage: the share of single groups is not logged."""
    known, flat = steps_without_spread(evidence)
    if not flat or 2 * len(flat) <= len(known):
        return
    message = f"no answer to a prompt was scored unlike the others at {len(flat)} of {counted(len(known), 'step')}"
    fix = "rewards that tell answers apart, prompts of another difficulty, or more samples a prompt"
    if len(flat) == len(known):
        yield unverified("RLX656", f"{message}: there was nothing to learn", fix, min(flat))
    else:
        yield remark("RLX656", Severity.WARNING, f"{message}: little to learn", fix, min(flat))


def steps_without_spread(evidence: Evidence) -> tuple[set[int], set[int]]:
    """The steps whose rewards or advantages are logged, and those among them at which all are equal."""
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
