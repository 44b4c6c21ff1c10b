"""Render a comparison as sentences and as JSON. Nothing is decided here: the words follow from the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlx.compare.arms import ComparedArm
from rlx.compare.comparison_values import Comparison, Contrast, Pair
from rlx.compare.excluded_runs import excluded_groups
from rlx.compare.factors import credited, listed
from rlx.compare.findings import brief, one_seed_words
from rlx.compare.metric import Unit
from rlx.compare.registered_answer import AnswerKind, RegisteredAnswer, RegisteredResult, RegisteredRun
from rlx.compare.registered_design import Claim
from rlx.compare.statistic import ALPHA, Statistic
from rlx.evidence.metrics import is_validation
from rlx.evidence.verdict import counted
from rlx.model import Registration, RunState, to_jsonable
from rlx.model.registration import AREA, LAST

_NAMED = 4
_FAILED = {state.value for state in (RunState.FAILED, RunState.LOST, RunState.STOPPED)}
EXPLORATORY = "exploratory, for the question was not registered before the launch"
_NAME, _NAMED_TREATMENTS = 60, 3


def sentences(pair: Pair, contrast: Contrast, is_share: bool, treatments_tested: int) -> tuple[str, ...]:
    """Return the sentences of one treatment: the numbers, what they mean, and what one seed per arm leaves open."""
    said = (*_sentences(pair, contrast, Unit(is_share), treatments_tested), *joint_credit(pair))
    return said if pair.has_seeds else (*said, one_seed_words(pair))


def _sentences(pair: Pair, contrast: Contrast, unit: Unit, treatments_tested: int) -> tuple[str, ...]:
    if not contrast.is_result(*pair.arms):
        is_interim = not (pair.finished or contrast.errors or any(run.is_excluded for run in pair.runs))
        return (f"{'interim' if is_interim else 'no result'}: {contrast.no_test}",)
    caveat = unverified_words(pair.unverified)
    numbers = tuple(f"{caveat}{words}" for words in numbers_sentences(pair, contrast, unit))
    later = tuple(later_steps(pair))
    if contrast.test is None or contrast.p_value is None:
        return (f"{numbers[0]}; no p-value: {contrast.no_test}", *later)
    return (
        *numbers,
        *later,
        f"{caveat}{test_sentence(pair, contrast.test, contrast.p_value, unit, treatments_tested)}",
    )


def joint_credit(pair: Pair) -> Iterator[str]:
    """Name all factors of a treatment that has several: no test tells which of them a difference is due to."""
    if pair.measure.systems:
        found = counted(len(pair.differences), "difference")
        yield f"whole systems are compared, with {found}: no one of them is credited"
    elif len(pair.factors) > 1:
        yield (
            f"{pair.treatment.label} differs from {pair.control.label} in {len(pair.factors)} factors by declaration: "
            f"{listed(pair.factors)}; a difference belongs to all of them together"
        )


def numbers_sentences(pair: Pair, contrast: Contrast, unit: Unit) -> tuple[str, ...]:
    """`at step 116: +2.4 points, 95 % interval -1.1 to +5.9; n = 1319 from the plan and the log`.

    A test of two checkpoints has a sentence of its own where an arm has more runs than the one that is tested.
    """
    text = f"at step {contrast.step}: {'' if contrast.difference is None else unit.change(contrast.difference)}"
    test = contrast.test
    if len(pair.runs) == 2:
        return (f"{text}, {interval_text(pair, test, unit)}" if test else text,)
    means = f"{text} between the means of {runs_text(pair)}"
    if test is None or test.is_of_arms:
        return (f"{means}, {interval_text(pair, test, unit)}" if test else means,)
    two = " and ".join(run.label for run in pair.checkpoints)
    return means, f"{two}: {unit.change(test.difference)}, {interval_text(pair, test, unit)}"


def later_steps(pair: Pair) -> Iterator[str]:
    """Name the runs with values after the compared step, which is the last that all runs have."""
    later = [run for run in pair.runs if run.final and pair.step is not None and run.final.step > pair.step]
    if later:
        ends = ", ".join(f"{run.label} has them up to step {run.final.step}" for run in later if run.final)
        yield f"later values are not compared: {ends}"


def interval_text(pair: Pair, test: Statistic, unit: Unit) -> str:
    """Return the interval, and what the test counted with."""
    return f"95 % interval {unit.signed(test.low)} to {unit.signed(test.high)}{test.counted_words(pair.items)}"


def test_sentence(pair: Pair, test: Statistic, p_value: float, unit: Unit, treatments_tested: int = 1) -> str:
    """Say what the test found on two checkpoints or arms. `p_value` is corrected for the treatments tested."""
    corrected = f" corrected for {treatments_tested} treatments" if treatments_tested > 1 else ""
    numbers = f"p {p_text(p_value)}{corrected}, {test.sample_words(runs_text(pair))}"
    control, treatment = pair.control.label, credited(pair.treatment.label, pair.factors)
    if p_value < ALPHA:
        differ = f"{treatment} differs from {control}" if test.is_of_arms else "these checkpoints differ"
        return f"{differ} {_where(pair)} ({unit.change(test.difference)}, {numbers})"
    compared = f"{control} and {treatment}" if test.is_of_arms else "these two checkpoints"
    where = "" if is_validation(pair.metric) else f" {_where(pair)}"
    return f"no significant difference between {compared}{where} ({numbers}; {power_text(test, unit)})"


def power_text(test: Statistic, unit: Unit) -> str:
    """Say what these items or runs can show, and how many of them the observed difference would take."""
    if unit.in_points and test.detectable >= 1:
        return f"with so few {test.unit_of_sample}, no difference is detected with 80 % power, however large"
    detected = f"a true difference of {unit.size(test.detectable)} is detected with 80 % power"
    needed = test.needed_words()
    return f"{detected}, one of {unit.bare(test.difference)} only with {needed}" if needed else detected


def runs_text(pair: Pair) -> str:
    """`3 and 3 seeds`, `2 seeds and 1 seed`; `3 and 3 runs` where some are repeats of one seed."""
    control, treatment = (len(arm.runs) for arm in pair.arms)
    unit = "run" if any(arm.repeats for arm in pair.arms) else "seed"
    if 1 in (control, treatment):
        return f"{counted(control, unit)} and {counted(treatment, unit)}"
    return f"{control} and {treatment} {unit}s"


def p_text(p_value: float) -> str:
    """`= 0.18`; as many digits as it takes to stand on the right side of the threshold."""
    if p_value < 0.0001:
        return "< 0.0001"
    texts = (f"{p_value:.{digits}g}" for digits in (2, 3, 4, 6))
    return "= " + next((text for text in texts if (float(text) < ALPHA) == (p_value < ALPHA)), repr(p_value))


def _where(pair: Pair) -> str:
    """Name what a difference of this metric is about."""
    if is_validation(pair.metric):
        return "on this test set"
    return f"in {pair.metric}, which does not measure held-out items"


def unverified_words(names: Sequence[str]) -> str:
    """`unverified (aqn-s1, aqn-s2): `, the words before whatever rests on unverified runs; "" without any."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"unverified ({', '.join(names[:_NAMED])}{more}): " if names else ""


def registered_lines(found: RegisteredResult) -> Iterator[str]:
    """Yield the question, then what answers it, indented by two; while nothing does, why. Then what is in no answer."""
    asked = found.registration
    yield f"registered {f'{asked.registered} ' if asked.registered else ''}as {asked.short}: {asked.question}"
    yield from (f"  {line}" for line in _result_lines(found))
    if failures := _failures(found):
        yield f"  {failures}"
    yield from (f"  not in the answer: {line}" for line in excluded_groups(found.left_out))
    yield from (f"  {note.severity} {note.id} {note.message}" for note in found.notes)


def _result_lines(found: RegisteredResult) -> Iterator[str]:
    if found.is_open:
        yield f"no answer yet: {found.withheld}"
        if not all(run.is_open for run in found.lacking):
            yield "the answer can only be cannot tell, for a run has ended without a value that counts"
        yield from map(run_text, found.lacking)
    elif found.answers:
        yield from _answer_lines(found, found.answers)
        yield from (run.why for run in found.runs if run.why)
    else:
        yield f"cannot tell: {found.objection or 'not every registered run has a value that counts'}"
        yield from map(run_text, found.lacking)
        without = f"exploratory, without {'it' if len(found.lacking) == 1 else 'them'}"
        yield from (f"{without}: {line}" for line in _answer_lines(found, found.exploratory))


def registered_claim(found: RegisteredResult) -> str:
    """Return one line for a badge: `registered, 5 seeds: aqn is no worse than baseline by 2 points or more`."""
    asked = found.registration
    if found.is_open:
        return f"registered, no answer yet: {len(found.runs) - len(found.lacking)} of {len(found.runs)} runs are in"
    if not found.answers:
        return f"registered, {counted(len(asked.seeds), 'seed')}: cannot tell, for {_obstacle(found)}"
    said = "; ".join(_plain(asked, each).replace(": ", ", ", 1) for each in found.answers)
    return f"registered, {counted(len(asked.seeds), 'seed')}: {_caveat(found)}{said}"


def run_text(run: RegisteredRun) -> str:
    """`seed 3 of aqn has ended as failed`."""
    return f"seed {run.seed} of {run.arm} {run.lacks}{f' ({run.why})' if run.why else ''}"


def _failures(found: RegisteredResult) -> str:
    """Count the runs without a value: `ended without a value that counts: 1 of 6 runs of aqn`; "" where none did.

    A treatment that makes runs fail shows here, whatever the other runs reached.
    """
    arms = [found.registration.control, *found.registration.treatments]
    launched, failed = Counter(run.arm for run in found.runs if run.run_id), Counter[str]()
    failed.update(run.arm for run in found.runs if run.run_id and run.lacks and not run.is_open)
    launched.update(run.arm for run in found.left_out)
    failed.update(run.arm for run in found.left_out if run.state in _FAILED)
    if not failed:
        return ""
    counts = ", ".join(f"{failed[arm]} of {counted(launched[arm], 'run')} of {arm}" for arm in arms)
    return f"ended without a value that counts: {counts}"


def _obstacle(found: RegisteredResult) -> str:
    if found.objection:
        return found.objection
    first, *others = found.lacking
    return f"{run_text(first)}{f', and {len(others)} more runs lack their values' if others else ''}"


def _answer_lines(found: RegisteredResult, answers: Sequence[RegisteredAnswer]) -> Iterator[str]:
    for each in answers:
        yield f"{_caveat(found)}{_plain(found.registration, each)}"
        yield _numbers(found.registration, each)
        if each.answer.spread:
            yield each.answer.spread


def _plain(asked: Registration, each: RegisteredAnswer) -> str:
    """Return the answer without its numbers: `yes: aqn is better than baseline`."""
    claim, treatment, control = Claim(asked.test), credited(each.treatment, each.factors), asked.control
    margin = Unit(each.is_share).size((asked.margin or 0.0) / _scale(each))
    higher, lower = ("better", "worse") if is_validation(each.metric) else ("higher", "lower")
    words = {
        (Claim.SUPERIORITY, AnswerKind.YES): f"yes: {treatment} is {higher} than {control}",
        (Claim.SUPERIORITY, AnswerKind.NO): f"no: {treatment} is {lower} than {control}",
        (Claim.NON_INFERIORITY, AnswerKind.YES): f"yes: {treatment} is not {lower} than {control} by {margin} or more",
        (Claim.NON_INFERIORITY, AnswerKind.NO): f"no: {treatment} is {lower} than {control} by more than {margin}",
        (
            Claim.EQUIVALENCE,
            AnswerKind.EQUIVALENT,
        ): f"equivalent: {treatment} and {control} differ by less than {margin}",
        (Claim.EQUIVALENCE, AnswerKind.NO): f"no: {treatment} and {control} differ by more than {margin}",
    }
    unknown = {
        Claim.SUPERIORITY: f"whether {treatment} differs from {control}",
        Claim.NON_INFERIORITY: f"whether {treatment} is {lower} than {control} by {margin}",
        Claim.EQUIVALENCE: f"whether {treatment} and {control} differ by less than {margin}",
    }
    said = words.get((claim, each.answer.kind)) or f"cannot tell {unknown[claim]}"
    return f"{said} on {each.metric}" if asked.also else said


def _numbers(asked: Registration, each: RegisteredAnswer) -> str:
    """Return the numbers of an answer: difference, interval, p-value, test, runs, and which value of a run was used."""
    found, unit, scale = each.answer, Unit(each.is_share), _scale(each)
    change = unit.change(found.estimate / scale)
    taken = f"{each.metric} {moment_text(asked)}, {found.control_runs} and {found.treatment_runs} seeds"
    if found.low is None or found.high is None or found.p_value is None:
        return f"{change}; {found.method}; {taken}"
    bounds = f"{unit.signed(found.low / scale)} to {unit.signed(found.high / scale)}"
    interval = f"{100 * found.level:.0f} % interval {bounds}"
    return f"{change}, {interval}, p {p_text(found.p_value)}; {found.method}; {taken}"


def _scale(each: RegisteredAnswer) -> float:
    """Points in a unit of the metric's values."""
    return 100.0 if each.is_share else 1.0


def moment_text(asked: Registration) -> str:
    """Which values of a run make its primary value."""
    if asked.at == LAST:
        return "at the last step"
    return "as the area under its curve" if asked.at == AREA else f"as the mean of its last {asked.validations} values"


def _caveat(found: RegisteredResult) -> str:
    what = "whole systems, no setting credited: " if found.registration.is_of_systems else ""
    return unverified_words([f"{run.arm}-s{run.seed}" for run in found.runs if run.is_unverified]) + what


def headline(comparison: Comparison) -> str:
    """`exploratory …: two checkpoints; no claim about aqn`; "" where there is no result.

    For a registered experiment its answer, or why there is no answer: `registered, 5 seeds: yes, aqn is better than …`.
    """
    words = _headline(comparison)
    return f"{words}{waived_in_words(comparison)}" if words else ""


def waived_in_words(comparison: Comparison) -> str:
    """`; findings waived: RLX705 (fast-s1, fast-s2)`; "" where no run has any."""
    by_id: dict[str, list[str]] = {}
    for run in comparison.runs:
        for id in run.verdict.waived:
            by_id.setdefault(id, []).append(run.label)
    said = ", ".join(f"{id} ({', '.join(labels)})" for id, labels in sorted(by_id.items()))
    return f"; findings waived: {said}" if said else ""


def _headline(comparison: Comparison) -> str:
    if comparison.registered:
        return registered_claim(comparison.registered)
    pairs = zip(comparison.treatments, comparison.contrasts, strict=True)
    found = [contrast for arm, contrast in pairs if contrast.is_result(comparison.control, arm)]
    said = dict.fromkeys(_of_arms(comparison, contrast) for contrast in found if _is_of_arms(contrast))
    silent = [contrast for contrast in found if not _is_of_arms(contrast)]
    if silent:
        names = " and ".join(_name(contrast) for contrast in silent)
        names = names if len(silent) <= _NAMED_TREATMENTS else f"{len(silent)} treatments"
        what = "values alone" if all(contrast.test is None for contrast in silent) else "two checkpoints"
        said[f"{what}; no claim about {names}"] = None
    caveat = unverified_words(comparison.unverified)
    what = "whole systems, no setting credited: " if comparison.systems else ""
    return f"{EXPLORATORY}: {caveat}{what}{'; '.join(said)}" if said else ""


def _is_of_arms(contrast: Contrast) -> bool:
    return contrast.test is not None and contrast.test.is_of_arms


def _name(contrast: Contrast) -> str:
    return credited(brief(contrast.treatment, _NAME), contrast.factors)


def _of_arms(comparison: Comparison, contrast: Contrast) -> str:
    control, treatment = brief(comparison.control.label, _NAME), _name(contrast)
    if contrast.p_value is not None and contrast.p_value < ALPHA:
        return f"{treatment} differs from {control}"
    return f"no difference shown between {control} and {treatment}"


def comparison_document(comparison: Comparison) -> Mapping[str, Any]:
    """Return the whole comparison; the values of a step are in the order control, treatments.

    `answer`: that to the registered question, in words.
    """
    return {
        **to_jsonable(comparison),
        "control": _arm(comparison.control),
        "treatments": [_arm(arm) for arm in comparison.treatments],
        "claim": headline(comparison),
        "answer": [*registered_lines(comparison.registered)] if comparison.registered else [],
        "interim": comparison.interim,
        "reportable": comparison.reportable,
        "verified": comparison.verified,
    }


def _arm(arm: ComparedArm) -> Mapping[str, Any]:
    """Return the arm with its runs; an arm of one run also has the keys of the run, as in earlier versions.

    `struck`: its numbers are excluded. `repeats` is there only where the runs are repeats of one seed.
    """
    single = to_jsonable(arm.runs[0]) if len(arm.runs) == 1 else {}
    found = {**single, **to_jsonable(arm), "struck": arm.is_excluded}
    return found if arm.repeats else {key: value for key, value in found.items() if key != "repeats"}
