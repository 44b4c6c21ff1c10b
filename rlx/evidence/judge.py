"""The verdict: what the log shows against what the plan expected, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rlx.evidence.charges import (
    felt,
    followed,
    lifted,
    line_order,
    perturbations,
    probability_gap,
    recorded_weights,
    rounding_loss,
    shown_links,
    traced_settings,
    trained_on,
    watched,
)
from rlx.evidence.charges.check_input import Basis, CheckInput
from rlx.evidence.charges.check_table import all_charges
from rlx.evidence.charges.dose_response import WitnessOutcome
from rlx.evidence.charges.gap_test import GapTest
from rlx.evidence.charges.noise_by_step import Application
from rlx.evidence.charges.promised_noise import BUILTIN, promise_of, sigma_at
from rlx.evidence.charges.run_end import reached
from rlx.evidence.metrics import core_metric, is_validation, validated_steps
from rlx.evidence.run_evidence import Evidence, NoiseEvent
from rlx.evidence.traces import UNKNOWN_SETUP, Setup
from rlx.evidence.verdict import Charge, Verdict, VerdictStatus, counted, without_evidence
from rlx.evidence.waivers import Waiver, waivable, waived_words, with_waivers
from rlx.model import Expectations, NoiseSchedule, RunState
from rlx.model.verdict_rules import RULES, is_made

_ORDER = tuple(VerdictStatus)
_SINGLE_ARM = "main"
# Greedy answers that do not change, beside weights that do not change or do not arrive, which is why.
_FOLLOWS = {"RLX783": {"RLX790", "RLX792"}}


def judge(
    evidence: Evidence,
    expectations: Expectations,
    state: RunState,
    *,
    arm: str,
    control_gap: Mapping[int, float] | None = None,
    control_removed: Mapping[int, float] | None = None,
    has_recipe: bool = True,
    rules: int = RULES,
    setup: Setup = UNKNOWN_SETUP,
    waivers: Sequence[Waiver] = (),
) -> Verdict:
    """Hold a run against its plan. Works on a run in progress too: what is wrong so far is wrong already.

    `arm` is for the words only. `control_gap`: the gap between rollout and actor of the control by step, if there is
    one; it sharpens the second witness. `control_removed`: the share of samples that the same correction took from the
    control, by step. `has_recipe`: without one, only the noise was promised, and the rest is what the log says itself.
    `rules`: the version by which it is judged. `setup`: what the run was set up with.
    `waivers`: what a person accepted after its end.
    """
    if evidence.missing:  # what is not there can speak neither for the run nor against it
        return without_evidence(evidence.missing, rules)
    if rules >= line_order.SINCE:
        evidence = line_order.with_steps_by_order(evidence, expectations.noise)
    basis = Basis.RECIPE if has_recipe else Basis.NOISE
    given = CheckInput(evidence, expectations, state, basis, control_gap, control_removed, setup)
    made = _ordered(all_charges(given), rules)
    charges, waived = with_waivers(made, waivers)
    charges.sort(key=_weight)
    status = charges[0].status if charges else VerdictStatus.VALID
    if status is not VerdictStatus.VALID:
        story = _complaint(charges, evidence, expectations, state)
    elif given.noise is None:
        story = "; ".join([_quiet_story(evidence, expectations), *traced_settings.sentence(given, rules)])
    else:
        story = "; ".join([_noise_story(given, *given.noise), *traced_settings.sentence(given, rules)])
    seen = _noise_cell(given, arm)
    dissent = any(charge.dissent for charge in charges)
    findings = tuple(charge.finding for charge in charges)
    sentence = f"{status}{waived_words(waived)}: {story}"
    return Verdict(status, findings, sentence, seen, dissent, rules, given.traces, waived, waivable(made))


def _ordered(charges: Iterable[Charge], rules: int) -> list[Charge]:
    """Return what rules of that version charge, the worst first; of one weight, causes before their consequences.

    What follows from another finding alone is left out beside it.
    """
    made = [charge for charge in charges if is_made(charge.finding.id, rules)]
    ids = {charge.finding.id for charge in made}
    return sorted((charge for charge in made if not _FOLLOWS.get(charge.finding.id, set()) & ids), key=_weight)


def _weight(charge: Charge) -> tuple[int, bool]:
    """The worst first; of what is unverified, what strikes the numbers."""
    return _ORDER.index(charge.status), not charge.dissent


def _noise_cell(given: CheckInput, arm: str) -> str:
    if given.noise is None:
        return _no_noise(given.evidence, given.expectations, arm)
    return _cell(given.noise.application, begun=bool(given.evidence.metrics))


def _no_noise(evidence: Evidence, expectations: Expectations, arm: str) -> str:
    noisy = [event for event in evidence.noise if event.is_noisy]
    if noisy:
        return f"NOT PLANNED: {_event_words(noisy[-1])}"
    if expectations.watch is not None and watched.saw_noise(evidence):
        return "NOT PLANNED: σ ?"
    return "none" if arm == _SINGLE_ARM else "none (control)"


def _cell(found: Application, *, begun: bool) -> str:
    if found.effective:
        return _event_words(found.last_effect())
    if found.noisy:
        return "WITHOUT EFFECT"
    if unplaced := [event for event in found.unplaced if event.is_noisy]:
        return f"σ ? · {unplaced[-1].layers} layers"
    if found.unread:
        return "?"
    if found.due:
        return "NOT APPLIED"
    return "σ 0 (first stage)" if begun else "–"


def _event_words(event: NoiseEvent) -> str:
    sigma = f"{event.sigma:.2g}" if event.sigma == event.sigma else "?"
    return f"σ {sigma} · {counted(event.layers, 'layer')}"


def _complaint(charges: Sequence[Charge], evidence: Evidence, expectations: Expectations, state: RunState) -> str:
    """The first finding in full, the ids of the others that weigh as much, and how far a run in progress is."""
    worst = [charge.finding for charge in charges if charge.status is charges[0].status]
    words = f"{worst[0].message} ({', '.join(dict.fromkeys(finding.id for finding in worst))})"
    if charges[0].status is VerdictStatus.INVALID and not state.is_terminal:
        words += f"; interim, {reached(evidence, expectations)}"
    return words


def _quiet_story(evidence: Evidence, expectations: Expectations) -> str:
    shown = watched.sentence(evidence) if expectations.watch is not None else ""
    none = f"no noise, as planned{f', {shown}' if shown else ''}"
    course = f"{reached(evidence, expectations)}, {_validations(evidence, expectations)}"
    return "; ".join((none, course, *recorded_weights.sentence(evidence)))


def _noise_story(given: CheckInput, noise: NoiseSchedule, found: Application, test: GapTest) -> str:
    evidence = given.evidence
    first, last = found.effective[0], found.effective[-1]
    parts = [
        f"noise on {found.last_effect().layers}{_of_all(noise)} {_layer_words(noise)} layers in "
        f"{len(found.effective)} of {counted(len(found.sigmas), 'step')}{_by_order(found)}, "
        f"sigma {sigma_at(found.sigmas, first):.3g} → {sigma_at(found.sigmas, last):.3g}",
        *followed.sentence(noise, found),
        *perturbations.sentence(noise),
        *rounding_loss.sentence(found),
        *trained_on.sentence(evidence, found, given.expectations),
        "validations noisy as declared"
        if noise.in_validation
        else lifted.sentence(evidence, len(validated_steps(evidence, None))),
        *felt.sentence(evidence),
        *([probability_gap.sentence(test, found)] if test.outcome is WitnessOutcome.AGREES else []),
        *shown_links.sentence(noise),
        *recorded_weights.sentence(evidence),
        *([counted(len(evidence.restarts), "restart")] if evidence.restarts else []),
    ]
    return "; ".join(parts)


def _by_order(found: Application) -> str:
    return " by the order of the lines" if any(line_order.is_by_order(event) for _, event in found.all_events()) else ""


def _of_all(noise: NoiseSchedule) -> str:
    """Of a fork, which names no layers, how many the model has."""
    promise = promise_of(noise)
    return f" of {len(promise.layers)}" if noise.provider == BUILTIN and promise.layers else ""


def _layer_words(noise: NoiseSchedule) -> str:
    return " and ".join("RMSNorm" if kind == "rmsnorm" else kind for kind in noise.layer_types)


def _validations(evidence: Evidence, expectations: Expectations) -> str:
    metric = core_metric(evidence, expectations)
    if metric is not None and not is_validation(metric) and not expectations.validation_steps:
        return f"no validation, {metric} is of the training"
    validated = validated_steps(evidence, metric)
    words = counted(len(validated), "validation")
    words += f", the last at step {max(validated)}" if validated else ""
    return words + (f"; {counted(len(evidence.restarts), 'restart')}" if evidence.restarts else "")
