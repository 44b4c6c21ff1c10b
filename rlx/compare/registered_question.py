"""Answer the registered question of an experiment once all of its registered runs have ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from rlx.compare.comparison_values import Comparison
from rlx.compare.primary_value import PrimaryValue, primary_values
from rlx.compare.registered_answer import answer, as_family
from rlx.compare.registered_design import registered_design
from rlx.compare.registered_result import RegisteredAnswer, RegisteredResult, RegisteredRun
from rlx.compare.run_slots import RunSlot
from rlx.evidence import JudgedRun, Verdict, VerdictStatus
from rlx.model import Registration, RunState
from rlx.model.verdict_rules import RULES

_FEWEST = 2


def open_result(
    asked: Registration, slots: Sequence[RunSlot], runs: Mapping[str, JudgedRun]
) -> RegisteredResult | None:
    """The result while a registered run is missing or goes on; None once all of them have ended.

    `slots`: what stands for each registered run; `runs`: those by id.
    """
    found = _unanswered(slots, runs)
    return RegisteredResult(asked, found, rules=_rules(runs)) if any(run.is_open for run in found) else None


def objected_result(
    asked: Registration, slots: Sequence[RunSlot], runs: Mapping[str, JudgedRun], objection: str
) -> RegisteredResult:
    """The result of runs that have ended and that nothing brings together."""
    return RegisteredResult(asked, _unanswered(slots, runs), objection=objection, rules=_rules(runs))


def _rules(runs: Mapping[str, JudgedRun]) -> int:
    return min((run.verdict.rules for run in runs.values()), default=RULES)


def ended_result(
    asked: Registration, slots: Sequence[RunSlot], runs: Mapping[str, JudgedRun], found: Sequence[Comparison]
) -> RegisteredResult:
    """The result of runs that have all ended. `found` holds them against each other by each metric, in their order.

    Verdicts are those of `found`, which kept outputs may have contradicted.
    """
    verdicts = _verdicts(found)
    ended = [runs[slot.run.run_id] for slot in slots if slot.run is not None]
    values = {metric: primary_values(ended, replace(asked, metric=metric)) for metric in asked.metrics}
    known = tuple(
        _ended(slot, run, verdicts.get(run.run_id, run.verdict), {metric: own[at] for metric, own in values.items()})
        for at, (slot, run) in enumerate(zip(slots, ended, strict=True))
    )
    errors = (error.message for each in found for contrast in each.contrasts for error in contrast.errors)
    repeats = (arm.repeats_words for each in found for arm in each.arms if arm.repeats)
    objection = next(chain(errors, repeats), "")
    result = RegisteredResult(asked, known, objection=objection, rules=_rules(runs))
    if objection:
        return result
    answers = _answers(asked, known, [each.is_share for each in found], [each.factors for each in found[0].contrasts])
    return replace(result, exploratory=answers) if result.lacking else replace(result, answers=answers)


def _verdicts(found: Sequence[Comparison]) -> Mapping[str, Verdict]:
    """The verdicts by run id; one metric that is contradicted is enough."""
    verdicts: dict[str, Verdict] = {}
    for run in (run for each in found for run in each.runs):
        if run.run_id not in verdicts or not run.verdict.is_result(ended=True):
            verdicts[run.run_id] = run.verdict
    return verdicts


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
    return RegisteredRun(slot.arm, slot.seed, run.run_id, {}, lacks, is_open, why=slot.why)


def _ended(slot: RunSlot, run: JudgedRun, verdict: Verdict, primary: Mapping[str, PrimaryValue]) -> RegisteredRun:
    why_not = next((each.why_not for each in primary.values() if each.value is None), "")
    lacks = _lacks(run, verdict) or (f"counts for nothing: {why_not}" if why_not else "")
    values = {metric: each.value for metric, each in primary.items() if each.value is not None and not lacks}
    is_unverified = not lacks and verdict.status is not VerdictStatus.VALID
    return RegisteredRun(slot.arm, slot.seed, run.run_id, values, lacks, is_unverified=is_unverified, why=slot.why)


def _lacks(run: JudgedRun, verdict: Verdict) -> str:
    """Why a run that has ended is no result; "" for one that is."""
    if run.state is not RunState.FINISHED and verdict.status is not VerdictStatus.INVALID:
        return f"has ended as {run.state.value}"
    return "" if verdict.is_result(ended=True) else f"is {verdict.word}"


def _answers(
    asked: Registration, runs: Sequence[RegisteredRun], shares: Sequence[bool], factors: Sequence[tuple[str, ...]]
) -> tuple[RegisteredAnswer, ...]:
    """Answer from the runs that have values; nothing where an arm has fewer than two of them.

    `shares`: whether the values of each metric are shares. `factors`: those of each treatment, whose metrics are one
    family.
    """
    seeds = set(asked.seeds)
    if asked.is_paired:
        seeds -= {run.seed for run in runs if run.lacks}
    arms = [
        [
            run
            for run in sorted(runs, key=lambda run: run.seed)
            if run.arm == arm and run.seed in seeds and not run.lacks
        ]
        for arm in (asked.control, *asked.treatments)
    ]
    if min(map(len, arms)) < _FEWEST:
        return ()
    by_metric = [
        answer(registered_design(asked, is_share), *([run.values[metric] for run in arm] for arm in arms))
        for metric, is_share in zip(asked.metrics, shares, strict=True)
    ]
    if len(by_metric) > 1:
        by_metric = [*zip(*map(as_family, zip(*by_metric, strict=True)), strict=True)]
    return tuple(
        RegisteredAnswer(metric, treatment, is_share, each, own)
        for metric, is_share, answers in zip(asked.metrics, shares, by_metric, strict=True)
        for treatment, each, own in zip(asked.treatments, answers, factors, strict=True)
    )
