"""The verdict on a run of which no recipe says what it promised: what its log says about itself, and no more."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from rlx.evidence.charges import training_signal
from rlx.evidence.charges import unproven_grammar as grammar
from rlx.evidence.charges import validation_precision as precision
from rlx.evidence.charges.completeness import completeness, reached
from rlx.evidence.charges.conflicting_records import conflict_charges
from rlx.evidence.charges.noise_placement import noise_that_never_came
from rlx.evidence.charges.noise_seen import noise_seen
from rlx.evidence.metrics import core_metric, series
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.verdict import Charge, Verdict, VerdictStatus, counted, incomplete, unverified, without_evidence
from rlx.plan import Expectations, RunState
from rlx.plan.verdict_rules import RULES, is_made


def judge_unplanned(
    evidence: Evidence, expectations: Expectations, state: RunState, *, launched: bool = False, rules: int = RULES
) -> Verdict:
    """`unverified` at best; `incomplete` where the log misses its own totals or steps of its own record; `invalid`
    where it shows that nothing was trained, which no recipe could have meant.

    `expectations` holds what a person said of it, such as the number of validation items, and what was read from the
    configuration that it prints. `launched`: rlx started the run, and recorded how it ended. `rules`: as of `judge`.
    """
    if evidence.missing:
        return without_evidence(evidence.missing, rules)
    charges = [*conflict_charges(evidence.conflicts), *noise_that_never_came(evidence), without_recipe(expectations)]
    charges += training_signal.charges(evidence, expectations, over=state.is_terminal)
    if launched:
        charges += completeness(replace(evidence, conflicts=()), expectations, state, planned=False)
    elif state.is_terminal:
        # Nobody recorded how the command ended. Whether the run did, its own totals say.
        charges += completeness(replace(evidence, conflicts=()), expectations, RunState.FINISHED, planned=False)
    if state.is_terminal:
        charges += _last_value(evidence, expectations)
    charges += (*precision.charges(evidence), *grammar.charges(evidence))
    charges = [charge for charge in charges if is_made(charge.finding.id, rules)]
    charges.sort(key=lambda charge: tuple(VerdictStatus).index(charge.status))
    worst, far, seen = charges[0], reached(evidence, expectations), noise_seen(evidence)
    sentence = f"{worst.status}: {worst.finding.message} ({worst.finding.id}); {seen.sentence}"
    sentence += "" if far in sentence else f"; {far}"
    return Verdict(worst.status, tuple(charge.finding for charge in charges), sentence, seen.cell, rules=rules)


def _last_value(evidence: Evidence, expectations: Expectations) -> Iterator[Charge]:
    """Take the last validation that the log has, because no schedule says when it was to be validated."""
    metric = core_metric(evidence, expectations)
    step, value = max(series(evidence, metric).items()) if metric else (0, 0.0)
    if not math.isfinite(value):
        message = f"the last validation, at step {step}, has no finite value: {metric} is {value}"
        yield incomplete("RLX702", message, "see why (rlx diagnose RUN)", step)


def without_recipe(expectations: Expectations) -> Charge:
    """Charge that nobody promised what the run is held to, with the validations that were read instead, if any."""
    if not expectations.is_read:
        return unverified(
            "RLX716", "no recipe: nothing says what it promised, its noise included", "take it in with --recipe"
        )
    steps = expectations.validation_steps
    due = f"{counted(len(steps), 'validation')}, the last at step {steps[-1]}" if steps else "no validation"
    return unverified(
        "RLX716",
        f"no recipe: it is held to the configuration that its log prints, which is read and not promised ({due})",
        "only a recipe promises: rlx import or rlx adopt with --recipe, or rlx launch RECIPE",
    )
