"""Judge a run: compare what its log and records show with what its plan expected.

`judge` is for runs with a recipe, or at least with planned noise; `judge_unplanned` for logs without either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from rlx.evidence.checks import (
    adaptive_sigma,
    arm_without_noise,
    limits_of_evidence,
    noise_applied,
    noise_removal,
    noise_response,
    noise_sample,
    probability_gap,
    recipe_settings,
    recorded_weights,
    training_on_noise,
)
from rlx.evidence.checks.check_input import Basis, CheckInput, NoiseInput
from rlx.evidence.checks.check_table import all_findings
from rlx.evidence.checks.completeness import steps_reached
from rlx.evidence.checks.gap_test import GapOutcome
from rlx.evidence.checks.noise_by_step import (
    BUILTIN,
    STEPS_BY_ORDER_SINCE,
    is_by_order,
    noise_expectation,
    sigma_at,
    training_steps,
    with_steps_by_order,
)
from rlx.evidence.metrics import core_metric, is_validation, validated_steps
from rlx.evidence.run_evidence import ROLLOUT, Evidence, NoiseEvent
from rlx.evidence.traces import UNKNOWN_SETUP, Setup
from rlx.evidence.verdict import (
    CheckFinding,
    Verdict,
    VerdictStatus,
    Waiver,
    counted,
    waivable,
    waived_words,
    with_waivers,
    without_evidence,
)
from rlx.model import Expectations, RunState
from rlx.model.verdict_rules import RULES, is_made

_ORDER = tuple(VerdictStatus)
COMPOSED_SINCE = 4
"""Since these rules a run without a recipe can be valid, against the configuration that its trainer composed."""
_SINGLE_ARM = "main"
# Greedy answers that do not change are explained by weights that do not change or do not arrive.
_EXPLAINED_BY = {"RLX783": {"RLX790", "RLX792"}}


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
    """Judge a run by its plan. A run in progress may be judged too: an error at a past step is an error already.

    `arm` is used in the words only. `control_gap`: the gap between rollout and actor of the control by step, if there
    is a control; it makes the test of the gap more sensitive. `control_removed`: the share of samples that the same
    correction removed from the control, by step. `has_recipe`: without a recipe only the noise was planned, and the
    rest is what the log states itself. `rules`: the version of the rules. `setup`: what the run was set up with.
    `waivers`: what a person accepted after the end of the run.
    """
    if evidence.missing:
        return without_evidence(evidence.missing, rules)
    if rules >= STEPS_BY_ORDER_SINCE:
        evidence = with_steps_by_order(evidence, expectations.noise)
    basis = Basis.RECIPE if has_recipe else Basis.NOISE
    setup = setup if has_recipe or rules >= COMPOSED_SINCE else UNKNOWN_SETUP
    given = CheckInput(evidence, expectations, state, basis, control_gap, control_removed, setup)
    made = [each for each in all_findings(given) if is_made(each.finding.id, rules)]
    ids = {each.finding.id for each in made}
    made = sorted((each for each in made if not _EXPLAINED_BY.get(each.finding.id, set()) & ids), key=_severity)
    found, waived = with_waivers(made, waivers)
    found.sort(key=_severity)
    status = found[0].status if found else VerdictStatus.VALID
    against = ""
    if status is not VerdictStatus.VALID:
        story = _worst_finding(found, given)
    else:
        against = "" if has_recipe else f" {_against_configuration(given, 'only the noise')}"
        shown = _story_without_noise(given) if given.noise is None else _story_of_noise(given, given.noise)
        story = "; ".join([*shown, *recipe_settings.traces_sentence(given, rules)])
    return Verdict(
        status,
        tuple(each.finding for each in found),
        f"{status}{against}{waived_words(waived)}: {story}",
        _cell_without_noise(given, arm) if given.noise is None else _cell_of_noise(given, given.noise),
        any(each.contradicts for each in found),
        rules,
        given.traces,
        waived,
        waivable(made),
    )


def judge_unplanned(
    evidence: Evidence,
    expectations: Expectations,
    state: RunState,
    *,
    launched: bool = False,
    rules: int = RULES,
    setup: Setup = UNKNOWN_SETUP,
    waivers: Sequence[Waiver] = (),
) -> Verdict:
    """Judge a run without a recipe, by what its log states itself.

    The verdict is `valid` only against a configuration that the trainer composed, which `setup` has, else `unverified`
    at best; `incomplete` where the log lacks steps of its own totals; `invalid` where it shows that nothing was
    trained, which no recipe can have intended. `expectations` holds what a person stated, such as the number of
    validation items, and what was read from the configuration that the log prints. `launched`: rlx started the run,
    and recorded how it ended. `rules`: as in `judge`.
    """
    if evidence.missing:
        return without_evidence(evidence.missing, rules)
    basis = Basis.LOG if launched or state.is_terminal else Basis.OPEN_LOG
    if state.is_terminal and not launched:
        # No record states how the command ended; the log's own totals show whether the run came to its end.
        state = RunState.FINISHED
    setup = setup if rules >= COMPOSED_SINCE else UNKNOWN_SETUP
    given = CheckInput(evidence, expectations, state, basis, setup=setup)
    made = [each for each in all_findings(given) if is_made(each.finding.id, rules)]
    found, waived = with_waivers(made, waivers)
    found.sort(key=lambda each: _ORDER.index(each.status))
    worst, far, noise = found[0], steps_reached(evidence, expectations), _noise_in_log(evidence)
    if worst.status is VerdictStatus.VALID:
        story = "; ".join([noise.sentence, *_progress(given)])
        sentence = f"{worst.status} {_against_configuration(given, 'nothing')}{waived_words(waived)}: {story}"
    else:
        why = f"{worst.finding.message} ({worst.finding.id})"
        sentence = f"{worst.status}{waived_words(waived)}: {why}; {noise.sentence}"
    return Verdict(
        worst.status,
        tuple(each.finding for each in found),
        sentence if far in sentence else f"{sentence}; {far}",
        noise.cell,
        any(each.contradicts for each in found),
        rules,
        given.traces,
        waived,
        waivable(made),
    )


def _against_configuration(given: CheckInput, beforehand: str) -> str:
    """Write `against the configuration that the trainer composed; nothing was planned beforehand`.

    Of what the launch expected, only what the log shows.
    """
    composed, stated = "against the configuration that the trainer composed", given.expectations.stated
    if stated is not None and given.evidence.totals.validation_rows is None:
        stated = replace(stated, items=None)
    if stated is not None and str(stated):
        return f"{composed}, and as expected at its launch: {stated}"
    return f"{composed}; {beforehand} was planned beforehand"


def _severity(found: CheckFinding) -> tuple[int, bool]:
    """Sort the worst first; among unverified findings, those first that exclude the numbers."""
    return _ORDER.index(found.status), not found.contradicts


def _worst_finding(found: Sequence[CheckFinding], given: CheckInput) -> str:
    """Quote the first finding, with the ids of the others of its status, and how far a run in progress is."""
    worst = [each.finding for each in found if each.status is found[0].status]
    words = f"{worst[0].message} ({', '.join(dict.fromkeys(finding.id for finding in worst))})"
    if found[0].status is VerdictStatus.INVALID and not given.state.is_terminal:
        words += f"; interim, {steps_reached(given.evidence, given.expectations)}"
    return words


def _story_without_noise(given: CheckInput) -> list[str]:
    evidence, expectations = given.evidence, given.expectations
    shown = arm_without_noise.watch_sentence(evidence) if expectations.watch is not None else ""
    return [
        f"no noise, as planned{f', {shown}' if shown else ''}",
        *_progress(given),
        *recorded_weights.sentence(evidence),
    ]


def _progress(given: CheckInput) -> list[str]:
    """Write how far the run is, and its validations."""
    evidence, expectations = given.evidence, given.expectations
    metric = core_metric(evidence, expectations)
    if metric is not None and not is_validation(metric) and not expectations.validation_steps:
        validations = f"no validation, {metric} is of the training"
    else:
        validated = validated_steps(evidence, metric)
        validations = counted(len(validated), "validation")
        validations += f", the last at step {max(validated)}" if validated else ""
        validations += f"; {counted(len(evidence.restarts), 'restart')}" if evidence.restarts else ""
    return [f"{steps_reached(evidence, expectations)}, {validations}"]


def _story_of_noise(given: CheckInput, noise_input: NoiseInput) -> list[str]:
    evidence, (noise, found, test) = given.evidence, noise_input
    first, last, layers = found.effective[0], found.effective[-1], noise_expectation(noise).layers
    # A fork names no layers, so the number that the model has is added.
    of_all = f" of {len(layers)}" if noise.provider == BUILTIN and layers else ""
    kinds = " and ".join("RMSNorm" if kind == "rmsnorm" else kind for kind in noise.layer_types)
    by_order = " by the order of the lines" if any(is_by_order(event) for _, event in found.all_events()) else ""
    return [
        f"noise on {found.last_effect().layers}{of_all} {kinds} layers in "
        f"{len(found.effective)} of {counted(len(found.sigmas), 'step')}{by_order}, "
        f"sigma {sigma_at(found.sigmas, first):.3g} → {sigma_at(found.sigmas, last):.3g}",
        *adaptive_sigma.sentence(noise, found),
        *noise_sample.draws_sentence(noise),
        *noise_applied.rounding_sentence(found),
        *training_on_noise.sentence(evidence, found, given.expectations),
        "validations noisy as declared"
        if noise.in_validation
        else noise_removal.removal_sentence(evidence, len(validated_steps(evidence, None))),
        *noise_response.sentence(evidence),
        *([probability_gap.sentence(test, found)] if test.outcome is GapOutcome.AGREES else []),
        *limits_of_evidence.links_sentence(noise),
        *recorded_weights.sentence(evidence),
        *([counted(len(evidence.restarts), "restart")] if evidence.restarts else []),
    ]


def _cell_without_noise(given: CheckInput, arm: str) -> str:
    noisy = [event for event in given.evidence.noise if event.is_noisy]
    if noisy:
        return f"NOT PLANNED: {_sigma_and_layers(noisy[-1])}"
    if given.expectations.watch is not None and arm_without_noise.saw_noise(given.evidence):
        return "NOT PLANNED: σ ?"
    return "none" if arm == _SINGLE_ARM else "none (control)"


def _cell_of_noise(given: CheckInput, noise: NoiseInput) -> str:
    found = noise.application
    if found.effective:
        return _sigma_and_layers(found.last_effect())
    if found.noisy:
        return "WITHOUT EFFECT"
    if unplaced := [event for event in found.unplaced if event.is_noisy]:
        return f"σ ? · {unplaced[-1].layers} layers"
    if found.unread:
        return "?"
    if found.due:
        return "NOT APPLIED"
    return "σ 0 (first stage)" if given.evidence.metrics else "–"


def _sigma_and_layers(event: NoiseEvent) -> str:
    sigma = f"{event.sigma:.2g}" if event.sigma == event.sigma else "?"
    return f"σ {sigma} · {counted(event.layers, 'layer')}"


class _NoiseInLog(NamedTuple):
    cell: str
    sentence: str


def _noise_in_log(evidence: Evidence) -> _NoiseInLog:
    """Count what a log shows of noise on rollout weights, where no plan states what was due."""
    noisy = [event for event in evidence.noise if event.is_noisy and event.phase == ROLLOUT]
    if not noisy:
        return _NoiseInLog("never", "no line announces noise")
    logged = training_steps(evidence)
    steps = len({event.step for event in noisy if event.step is not None}.intersection(logged))
    lines = sum(event.step is None for event in noisy)
    where = f"{steps} of {counted(len(logged), 'step')}" if steps or not lines else counted(lines, "line")
    layers = counted(noisy[-1].layers, "layer")
    measured = [event.effective_std for event in noisy if event.elements and event.effective_std is not None]
    how = f"effective std {measured[0]:.2g} → {measured[-1]:.2g}" if measured else "never measured"
    verb = "announces" if (steps or lines) == 1 else "announce"
    return _NoiseInLog(f"{where} · {layers}", f"{where} {verb} noise on {layers}; {how}")
