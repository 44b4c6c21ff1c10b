"""Answer the registered question of an experiment once all of its registered runs have ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from math import fsum
from statistics import fmean

from rlx.compare.alignment import Series, finite
from rlx.compare.comparison_values import Comparison
from rlx.compare.registered_answer import RegisteredAnswer, RegisteredResult, RegisteredRun, answer, as_family
from rlx.compare.registered_design import registered_design
from rlx.compare.slot_assignment import RunSlot
from rlx.evidence import JudgedRun, Verdict, VerdictStatus, series
from rlx.evidence.metrics import disputed, is_named, is_validation, metric_names
from rlx.model import Registration, RunState
from rlx.model.post_metric import is_post
from rlx.model.registration import AREA, LAST
from rlx.model.verdict_rules import RULES

_FEWEST = 2
_MOST = 24


def open_result(
    asked: Registration, slots: Sequence[RunSlot], runs: Mapping[str, JudgedRun]
) -> RegisteredResult | None:
    """Return the result while a registered run is missing or running; None once all of them have ended.

    `slots`: what stands for each registered run; `runs`: those by id.
    """
    found = _unanswered(slots, runs)
    return RegisteredResult(asked, found, rules=_rules(runs)) if any(run.is_open for run in found) else None


def objected_result(
    asked: Registration, slots: Sequence[RunSlot], runs: Mapping[str, JudgedRun], objection: str
) -> RegisteredResult:
    """Return the result of runs that have ended and that nothing brings together."""
    return RegisteredResult(asked, _unanswered(slots, runs), objection=objection, rules=_rules(runs))


def _rules(runs: Mapping[str, JudgedRun]) -> int:
    return min((run.verdict.rules for run in runs.values()), default=RULES)


def ended_result(
    asked: Registration, slots: Sequence[RunSlot], runs: Mapping[str, JudgedRun], found: Sequence[Comparison]
) -> RegisteredResult:
    """Return the result of runs that have all ended. `found` compares them by each metric, in their
    order.

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
    """Return the verdicts by run id; one metric that is contradicted is enough."""
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
        lacks = f"does not count: {slot.run.cause or 'its records cannot be read'}"
        return RegisteredRun(slot.arm, slot.seed, slot.run.run_id, lacks=lacks, why=slot.why)
    is_open = not run.state.is_terminal
    lacks = f"is {run.state.value}" if is_open else _lacks(run, run.verdict)
    return RegisteredRun(slot.arm, slot.seed, run.run_id, {}, lacks, is_open, why=slot.why)


def _ended(slot: RunSlot, run: JudgedRun, verdict: Verdict, primary: Mapping[str, PrimaryValue]) -> RegisteredRun:
    why_not = next((each.why_not for each in primary.values() if each.value is None), "")
    lacks = _lacks(run, verdict) or (f"does not count: {why_not}" if why_not else "")
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


@dataclass(frozen=True, slots=True)
class PrimaryValue:
    """`value` is in the unit of the metric, and made of its values at `steps`.

    None where the run has no such value; `why_not` then says why, and `steps` are those that were looked for.
    """

    value: float | None
    steps: tuple[int, ...]
    why_not: str = ""


def primary_values(runs: Sequence[JudgedRun], asked: Registration) -> tuple[PrimaryValue, ...]:
    """Give each run, of all arms together, the value that `asked` registered; any metric of the log will do.

    The last step is that of the run's own plan, and of the mean of the last k validations each must be there: a run
    that ended early, or lost one, has no value. The area under the curve is that by the trapezoidal rule over the steps
    which all runs with a last step share, divided by their span: the mean height of the curve, in the metric's unit.
    """
    curves = [finite(series(run.evidence, asked.metric)) for run in runs]
    logged = sorted(set().union(*curves))
    lasts = [_last_step(run, asked, logged) for run in runs]
    ended = [set(curve) for curve, last in zip(curves, lasts, strict=True) if last in curve]
    grid = tuple(sorted(set.intersection(*ended))) if ended else ()
    return tuple(
        _value(run, curve, asked, _wanted(run, asked, logged, last, grid))
        for run, curve, last in zip(runs, curves, lasts, strict=True)
    )


def area_under(curve: Series, steps: Sequence[int]) -> float:
    """Return the mean height of the curve over two or more of its steps, ascending, by the trapezoidal rule."""
    areas = ((right - left) * (curve[left] + curve[right]) / 2 for left, right in pairwise(steps))
    return fsum(areas) / (steps[-1] - steps[0])


def _last_step(run: JudgedRun, asked: Registration, logged: Sequence[int]) -> int | None:
    """Return the step at which a curve ends by plan; of a run that was planned without an end, where the longest one
    ends.
    """
    planned = _planned_validations(run, asked.metric)
    if planned and asked.at != LAST:
        return planned[-1]
    return run.plan.expectations.total_steps or (logged[-1] if logged else None)


def _planned_validations(run: JudgedRun, metric: str) -> tuple[int, ...]:
    """Return the steps at which the plan measures the metric; empty for one of the training, which has its own pace."""
    return (
        tuple(sorted(run.plan.expectations.validation_steps)) if is_validation(metric) and not is_post(metric) else ()
    )


def _wanted(
    run: JudgedRun, asked: Registration, logged: Sequence[int], last: int | None, grid: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the steps that the value is made of. What is measured before the training counts in the whole curve
    alone.
    """
    if last is None:
        return ()
    if asked.at == LAST:
        return (last,)
    if asked.at == AREA:
        return tuple(dict.fromkeys([*grid, last]))
    steps = [step for step in _planned_validations(run, asked.metric) or logged if 0 < step <= last]
    return tuple(steps[-asked.validations :])


def _value(run: JudgedRun, curve: Series, asked: Registration, steps: tuple[int, ...]) -> PrimaryValue:
    if why_not := next(_reasons(run, curve, asked, steps), ""):
        return PrimaryValue(None, steps, why_not)
    value = area_under(curve, steps) if asked.at == AREA else fmean(curve[step] for step in steps)
    return PrimaryValue(value, steps)


def _reasons(run: JudgedRun, curve: Series, asked: Registration, steps: tuple[int, ...]) -> Iterator[str]:
    """Say what is missing for a value of the curve at these steps."""
    if not curve:
        yield f"no value of {asked.metric} in its log"
    for step in reversed(steps):
        if step not in curve:
            yield f"no value of {asked.metric} at step {step}; its last is at step {max(curve)}"
    needed = 2 if asked.at == AREA else asked.validations
    if len(steps) < needed:
        yield f"it needs {needed} validations, and there are {len(steps)}"
    for step, (one, other) in disputed(run.evidence, asked.metric).items():
        if step in steps:
            yield f"two values at step {step}: {one:.6g} and {other:.6g}"


@dataclass(frozen=True, slots=True)
class SecondaryValues:
    """What one metric gave: for each arm, the control first, the values of its runs that have one, and of how many."""

    name: str
    arms: tuple[tuple[float, ...], ...]
    runs: tuple[int, ...]


def secondary_values(found: RegisteredResult, judged: Sequence[JudgedRun]) -> list[SecondaryValues]:
    """Each secondary metric as the primary one is taken (at the last step, of the last validations, or as an area).

    Only runs that stand for a registered one and are a result have a value; the others count among the runs.
    """
    counted = {run.run_id for run in found.runs if run.run_id and not run.lacks}
    runs = [run for run in judged if run.run_id in counted]
    return [_of(name, asked, found, runs) for name, asked in _asked(found.registration, runs)][:_MOST]


def _asked(asked: Registration, runs: Sequence[JudgedRun]) -> Iterator[tuple[str, Registration]]:
    """(name, what is asked) of every metric that the registered names and patterns mean."""
    logged = set().union(*(metric_names(run.evidence) for run in runs))
    for name in asked.secondary:
        if name == AREA:
            yield f"area under {asked.metric}", replace(asked, at=AREA)
            continue
        meant = [name] if name in logged else sorted(each for each in logged if is_named(each, [name]))
        yield from ((metric, replace(asked, metric=metric)) for metric in meant)


def _of(name: str, asked: Registration, found: RegisteredResult, runs: Sequence[JudgedRun]) -> SecondaryValues:
    values = list(zip(runs, primary_values(runs, asked), strict=True))
    arms = (asked.control, *asked.treatments)
    return SecondaryValues(
        name,
        tuple(tuple(own.value for run, own in values if run.arm == arm and own.value is not None) for arm in arms),
        tuple(sum(run.arm == arm for run in found.runs) for arm in arms),
    )
