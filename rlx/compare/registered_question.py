"""Answer the registered question of an experiment once all of its registered runs have ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rlx.compare.comparison_values import Comparison
from rlx.compare.primary_value import PrimaryValue, primary_values
from rlx.compare.registered_answer import Answer, answer
from rlx.compare.registered_design import registered_design
from rlx.compare.registered_result import RegisteredResult, RegisteredRun
from rlx.compare.run_slots import RunSlot
from rlx.evidence import JudgedRun, Verdict, VerdictStatus
from rlx.plan import Registration, RunState

_FEWEST = 2


def open_result(
    asked: Registration, slots: Sequence[RunSlot], runs: Mapping[str, JudgedRun]
) -> RegisteredResult | None:
    """The result while a registered run is missing or goes on; None once all of them have ended.

    `slots`: what stands for each registered run; `runs`: those by id.
    """
    found = _unanswered(slots, runs)
    return RegisteredResult(asked, found) if any(run.is_open for run in found) else None


def objected_result(
    asked: Registration, slots: Sequence[RunSlot], runs: Mapping[str, JudgedRun], objection: str
) -> RegisteredResult:
    """The result of runs that have ended and that nothing brings together."""
    return RegisteredResult(asked, _unanswered(slots, runs), (), (), objection)


def ended_result(
    asked: Registration, slots: Sequence[RunSlot], runs: Mapping[str, JudgedRun], found: Comparison
) -> RegisteredResult:
    """The result of runs that have all ended. `found` holds these runs against each other by the registered metric.

    Verdicts are those of `found`, which kept outputs may have contradicted.
    """
    verdicts = {run.run_id: run.verdict for run in found.runs}
    ended = [runs[slot.run.run_id] for slot in slots if slot.run is not None]
    values = primary_values(ended, asked)
    known = tuple(
        _ended(slot, run, verdicts.get(run.run_id, run.verdict), value)
        for slot, run, value in zip(slots, ended, values, strict=True)
    )
    objection = next((error.message for each in found.contrasts for error in each.errors), "")
    result = RegisteredResult(asked, known, objection=objection, is_share=found.is_share)
    if objection:
        return result
    answers = _answers(asked, known, found.is_share)
    return replace(result, exploratory=answers) if result.lacking else replace(result, answers=answers)


def _unanswered(slots: Sequence[RunSlot], runs: Mapping[str, JudgedRun]) -> tuple[RegisteredRun, ...]:
    return tuple(_unvalued(slot, runs) for slot in slots)


def _unvalued(slot: RunSlot, runs: Mapping[str, JudgedRun]) -> RegisteredRun:
    if slot.run is None:
        return RegisteredRun(slot.arm, slot.seed, lacks="has not been launched", is_open=True, why=slot.why)
    run = runs.get(slot.run.run_id)
    if run is None:
        lacks = f"counts for nothing: {slot.run.cause or 'its records cannot be read'}"
        return RegisteredRun(slot.arm, slot.seed, slot.run.run_id, lacks=lacks, why=slot.why)
    is_open = not run.state.is_terminal
    lacks = f"is {run.state.value}" if is_open else _lacks(run, run.verdict)
    return RegisteredRun(slot.arm, slot.seed, run.run_id, None, lacks, is_open, why=slot.why)


def _ended(slot: RunSlot, run: JudgedRun, verdict: Verdict, primary: PrimaryValue) -> RegisteredRun:
    lacks = _lacks(run, verdict) or (f"counts for nothing: {primary.why_not}" if primary.value is None else "")
    value = None if lacks else primary.value
    is_unverified = not lacks and verdict.status is not VerdictStatus.VALID
    return RegisteredRun(slot.arm, slot.seed, run.run_id, value, lacks, is_unverified=is_unverified, why=slot.why)


def _lacks(run: JudgedRun, verdict: Verdict) -> str:
    """Why a run that has ended is no result; "" for one that is."""
    if run.state is not RunState.FINISHED and verdict.status is not VerdictStatus.INVALID:
        return f"has ended as {run.state.value}"
    return "" if verdict.is_result(ended=True) else f"is {verdict.word}"


def _answers(asked: Registration, runs: Sequence[RegisteredRun], is_share: bool) -> tuple[Answer, ...]:
    """Answer from the runs that have a value; nothing where an arm has fewer than two of them."""
    design = registered_design(asked, is_share)
    seeds = set(asked.seeds)
    if design.blocked:
        seeds -= {run.seed for run in runs if run.value is None}
    arms = [[*_values(runs, arm, seeds)] for arm in (asked.control, *asked.treatments)]
    return answer(design, *arms) if min(map(len, arms)) >= _FEWEST else ()


def _values(runs: Sequence[RegisteredRun], arm: str, seeds: set[int]) -> Iterator[float]:
    """The values of an arm in the order of its seeds, which is the same in each."""
    for run in sorted(runs, key=lambda run: run.seed):
        if run.arm == arm and run.seed in seeds and run.value is not None:
            yield run.value
