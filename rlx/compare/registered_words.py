"""Say what a registered experiment answers: one plain sentence a treatment, then the numbers it rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rlx.compare.factors import credited
from rlx.compare.left_out import left_out_groups
from rlx.compare.registered_answer import Kind
from rlx.compare.registered_design import Claim
from rlx.compare.registered_result import RegisteredAnswer, RegisteredResult, RegisteredRun
from rlx.compare.sentences import p_text, unverified_words
from rlx.compare.unit import Unit
from rlx.evidence.metrics import is_validation
from rlx.evidence.verdict import counted
from rlx.model import Registration, RunState
from rlx.model.registration import AREA, LAST

_FAILED = {state.value for state in (RunState.FAILED, RunState.LOST, RunState.STOPPED)}


def registered_lines(found: RegisteredResult) -> Iterator[str]:
    """The question, then what answers it, indented by two; while nothing does, why. Then what is in no answer."""
    asked = found.registration
    yield f"registered {f'{asked.registered} ' if asked.registered else ''}as {asked.short}: {asked.question}"
    yield from (f"  {line}" for line in _result_lines(found))
    if failures := _failures(found):
        yield f"  {failures}"
    yield from (f"  not in the answer: {line}" for line in left_out_groups(found.left_out))
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
    """`registered, 5 seeds: aqn is no worse than baseline by 2 points or more`, in one line for a badge."""
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
    """`ended without a value that counts: 1 of 6 runs of aqn, 0 of 5 of baseline`; "" where none did.

    A treatment that makes runs fail is told by that, whatever the rest of them reached.
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
    """The answer without its numbers: `yes: aqn is better than baseline`."""
    claim, treatment, control = Claim(asked.test), credited(each.treatment, each.factors), asked.control
    margin = Unit(each.is_share).size((asked.margin or 0.0) / _scale(each))
    higher, lower = ("better", "worse") if is_validation(each.metric) else ("higher", "lower")
    words = {
        (Claim.SUPERIORITY, Kind.YES): f"yes: {treatment} is {higher} than {control}",
        (Claim.SUPERIORITY, Kind.NO): f"no: {treatment} is {lower} than {control}",
        (Claim.NON_INFERIORITY, Kind.YES): f"yes: {treatment} is not {lower} than {control} by {margin} or more",
        (Claim.NON_INFERIORITY, Kind.NO): f"no: {treatment} is {lower} than {control} by more than {margin}",
        (Claim.EQUIVALENCE, Kind.EQUIVALENT): f"equivalent: {treatment} and {control} differ by less than {margin}",
        (Claim.EQUIVALENCE, Kind.NO): f"no: {treatment} and {control} differ by more than {margin}",
    }
    unknown = {
        Claim.SUPERIORITY: f"whether {treatment} differs from {control}",
        Claim.NON_INFERIORITY: f"whether {treatment} is {lower} than {control} by {margin}",
        Claim.EQUIVALENCE: f"whether {treatment} and {control} differ by less than {margin}",
    }
    said = words.get((claim, each.answer.kind)) or f"cannot tell {unknown[claim]}"
    return f"{said} on {each.metric}" if asked.also else said


def _numbers(asked: Registration, each: RegisteredAnswer) -> str:
    """What the answer rests on: difference, interval, p-value, test, runs, and which value of a run was taken."""
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
