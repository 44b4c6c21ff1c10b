"""Answer the registered question of an experiment once all of its registered runs have ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rlx.compare.comparison_values import Comparison
from rlx.compare.primary_value import PrimaryValue, primary_values
from rlx.compare.registered_answer import Answer, answer
from rlx.compare.registered_design import registered_design
from rlx.compare.registered_result import RegisteredResult, RegisteredRun
from rlx.evidence import JudgedRun, Verdict, VerdictStatus
from rlx.plan import Registration, RunState

Slot = tuple[int, str]
"""Seed and arm of a registered run."""
_FEWEST = 2


def open_result(asked: Registration, runs: Mapping[Slot, JudgedRun]) -> RegisteredResult | None:
    """The result while a registered run is missing or goes on; None once all of them have ended."""
    found = tuple(_before_the_end(slot, runs.get(slot)) for slot in asked.slots)
    return RegisteredResult(asked, found) if any(run.is_open for run in found) else None


def objected_result(asked: Registration, runs: Mapping[Slot, JudgedRun], objection: str) -> RegisteredResult:
    """The result of runs that have ended and that nothing brings together."""
    return RegisteredResult(asked, tuple(_before_the_end(slot, runs[slot]) for slot in asked.slots), (), (), objection)


def ended_result(asked: Registration, runs: Mapping[Slot, JudgedRun], found: Comparison) -> RegisteredResult:
    """The result of runs that have all ended. `found` holds these runs against each other by the registered metric.

    Verdicts are those of `found`, which kept outputs may have contradicted.
    """
    verdicts = {run.run_id: run.verdict for run in found.runs}
    slots = [*asked.slots]
    values = primary_values([runs[slot] for slot in slots], asked)
    known = tuple(_ended(slot, runs[slot], verdicts, value) for slot, value in zip(slots, values, strict=True))
    objection = next((error.message for each in found.contrasts for error in each.errors), "")
    answers = _answers(asked, known, found.is_share)
    if objection:
        return RegisteredResult(asked, known, (), (), objection, is_share=found.is_share)
    if any(run.lacks for run in known):
        return RegisteredResult(asked, known, (), answers, is_share=found.is_share)
    return RegisteredResult(asked, known, answers, is_share=found.is_share)


def _before_the_end(slot: Slot, run: JudgedRun | None) -> RegisteredRun:
    seed, arm = slot
    if run is None:
        return RegisteredRun(arm, seed, lacks="has not been launched", is_open=True)
    lacks, is_open = _lacks(run), not run.state.is_terminal
    return RegisteredRun(arm, seed, run.run_id, None, f"is {run.state.value}" if is_open else lacks, is_open)


def _ended(slot: Slot, run: JudgedRun, verdicts: Mapping[str, Verdict], primary: PrimaryValue) -> RegisteredRun:
    verdict = verdicts.get(run.run_id, run.verdict)
    lacks = _lacks(run, verdict) or (f"counts for nothing: {primary.why_not}" if primary.value is None else "")
    value = None if lacks else primary.value
    seed, arm = slot
    is_unverified = not lacks and verdict.status is not VerdictStatus.VALID
    return RegisteredRun(arm, seed, run.run_id, value, lacks, is_unverified=is_unverified)


def _lacks(run: JudgedRun, verdict: Verdict | None = None) -> str:
    """Why a run that has ended is no result; "" for one that is."""
    verdict = verdict or run.verdict
    if not verdict.is_result(ended=True):
        return f"is {verdict.word}"
    return "" if run.state is RunState.FINISHED else f"has ended as {run.state.value}"


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
