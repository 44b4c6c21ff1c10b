"""The verdict on a run of which no recipe says what it promised: what its log says about itself, and no more."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.evidence.charges.check_input import Basis, CheckInput
from rlx.evidence.charges.check_table import all_charges
from rlx.evidence.charges.noise_seen import noise_seen
from rlx.evidence.charges.run_end import reached
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.verdict import Verdict, VerdictStatus, without_evidence
from rlx.evidence.waivers import Waiver, waivable, waived_words, with_waivers
from rlx.model import Expectations, RunState
from rlx.model.verdict_rules import RULES, is_made


def judge_unplanned(
    evidence: Evidence,
    expectations: Expectations,
    state: RunState,
    *,
    launched: bool = False,
    rules: int = RULES,
    waivers: Sequence[Waiver] = (),
) -> Verdict:
    """`unverified` at best; `incomplete` where the log misses its own totals or steps of its own record; `invalid`
    where it shows that nothing was trained, which no recipe could have meant.

    `expectations` holds what a person said of it, such as the number of validation items, and what was read from the
    configuration that it prints. `launched`: rlx started the run, and recorded how it ended. `rules`: as of `judge`.
    """
    if evidence.missing:
        return without_evidence(evidence.missing, rules)
    basis = Basis.LOG if launched or state.is_terminal else Basis.OPEN_LOG
    if state.is_terminal and not launched:
        # No record says how the command ended. Whether the run did, its own totals say.
        state = RunState.FINISHED
    given = CheckInput(evidence, expectations, state, basis)
    made = [charge for charge in all_charges(given) if is_made(charge.finding.id, rules)]
    charges, waived = with_waivers(made, waivers)
    charges.sort(key=lambda charge: tuple(VerdictStatus).index(charge.status))
    worst, far, seen = charges[0], reached(evidence, expectations), noise_seen(evidence)
    sentence = f"{worst.status}{waived_words(waived)}: {worst.finding.message} ({worst.finding.id}); {seen.sentence}"
    sentence += "" if far in sentence else f"; {far}"
    contradicted = any(charge.dissent for charge in charges)
    findings = tuple(charge.finding for charge in charges)
    return Verdict(
        worst.status, findings, sentence, seen.cell, contradicted, rules, waived=waived, waivable=waivable(made)
    )
