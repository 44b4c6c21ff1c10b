"""Did the run come to its end, and is its record whole?

The plan's totals are promises and the log's are what the container really ran, so where they differ the run is held
to the log's own number, the finding shows both, and the verdict is `unverified` at best: neither side is believed
silently.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from rlx.evidence.metrics import (
    core_keys,
    core_metric,
    data_sources,
    finite,
    samples,
    series,
    statistic,
    validated_steps,
    variable,
)
from rlx.evidence.records import conflict_charges
from rlx.evidence.values import Evidence
from rlx.evidence.verdict import Charge, at_steps, counted, incomplete, remark, unverified
from rlx.plan import Expectations, RunState, Severity

_ENDS = {RunState.FAILED: "RLX801", RunState.STOPPED: "RLX802", RunState.LOST: "RLX803"}
_READ_THE_LOG = "read the end of its log (rlx logs), then launch it again"


def completeness(evidence: Evidence, expectations: Expectations, state: RunState) -> Iterator[Charge]:
    """What is missing from the end, the validations and the steps; what contradicts itself."""
    yield from _end(evidence, expectations, state)
    yield from _totals(evidence, expectations, state)
    yield from _metric(evidence, expectations)
    yield from _scheduled_validations(evidence, expectations)
    yield from _gaps(evidence)
    yield from _rows(evidence, expectations)
    yield from _answers(evidence, expectations)
    yield from _fractions(evidence, expectations)
    yield from _contradictions(evidence)
    yield from conflict_charges(evidence.conflicts)
    yield from _restarts(evidence)


def total_steps(evidence: Evidence, expectations: Expectations) -> int | None:
    """The step at which the run ends: what it says itself, else what was planned."""
    return evidence.total_steps or expectations.total_steps


def reached(evidence: Evidence, expectations: Expectations) -> str:
    """`step 7 of 20`."""
    total = total_steps(evidence, expectations)
    return f"step {evidence.last_step}" + (f" of {total}" if total else "")


def _end(evidence: Evidence, expectations: Expectations, state: RunState) -> Iterator[Charge]:
    where = reached(evidence, expectations)
    if not state.is_terminal:
        yield incomplete("RLX906", f"interim: the run is {state}, {where}", "wait for its end")
        return
    if state in _ENDS:
        yield incomplete(_ENDS[state], f"the run {_ended(state)} after {where}", _READ_THE_LOG)
    total = total_steps(evidence, expectations)
    if total is None:
        return
    if evidence.last_step < total:
        yield incomplete("RLX701", f"the last step was not reached: {where}", _READ_THE_LOG, evidence.last_step)
    # Also where the plan itself leaves the last step out: a value from before the end is not the run's result.
    if expectations.validation_steps and total not in _validated(evidence, expectations):
        last = max(_validated(evidence, expectations), default=None)
        seen = "no validation at all" if last is None else f"the last one is at step {last}"
        yield incomplete(
            "RLX702",
            f"step {total}, the last, was not validated: {seen}",
            "choose eval.every so that the last step is validated, and launch again",
            total,
        )


def _ended(state: RunState) -> str:
    return {RunState.FAILED: "failed", RunState.STOPPED: "was stopped"}.get(state, "was lost")


def _totals(evidence: Evidence, expectations: Expectations, state: RunState) -> Iterator[Charge]:
    own, planned = evidence.total_steps, expectations.total_steps
    if own is not None and planned is not None and own != planned:
        yield unverified(
            "RLX706",
            f"the plan says {counted(planned, 'step')}, the log says {own}; judged by the log's {own}",
            "check batch size, epochs, and how many rows the filter left",
        )
    elif own is None and planned is None and state.is_terminal:
        yield unverified("RLX706", "neither the plan nor the log says how many steps there are to be")


def _metric(evidence: Evidence, expectations: Expectations) -> Iterator[Charge]:
    due = [step for step in expectations.validation_steps if step <= evidence.last_step]
    if core_metric(evidence, expectations) is None and due and evidence.metrics:
        shown = ", ".join(core_keys(evidence)) or "no val-core metric"
        wanted = "val-core/…" if expectations.metric == "auto" else expectations.metric
        yield incomplete(
            "RLX707",
            f"the metric {wanted} is not in the log, which shows {shown}",
            "set eval.metric to one that it shows",
        )
    if expectations.metric == "auto" and len(sources := data_sources(evidence)) > 1:
        yield remark(
            "RLX711",
            Severity.NOTE,
            f"{len(sources)} validation data sources; judged by {core_metric(evidence, expectations)}",
            "set eval.metric to choose another",
        )


def _scheduled_validations(evidence: Evidence, expectations: Expectations) -> Iterator[Charge]:
    total = total_steps(evidence, expectations)
    validated = _validated(evidence, expectations)
    missing = [
        step
        for step in expectations.validation_steps
        if evidence.metrics and step <= evidence.last_step and step != total and step not in validated
    ]
    if missing:
        yield incomplete("RLX703", f"no validation at {at_steps(missing)}, where one was scheduled", step=missing[0])


def _gaps(evidence: Evidence) -> Iterator[Charge]:
    missing = set(range(1, evidence.last_step + 1)) - evidence.metrics.keys()
    if missing:
        yield incomplete("RLX704", f"no metrics at {at_steps(missing)}", "is a part of the log lost?", min(missing))


def _rows(evidence: Evidence, expectations: Expectations) -> Iterator[Charge]:
    own, planned = evidence.totals.validation_rows, expectations.validation_items
    if own is not None and planned is not None and own != planned:
        yield unverified(
            "RLX705",
            f"the plan says {counted(planned, 'validation row')}, the log says {own}",
            "set data.val_rows to what the filter leaves, or check the file",
        )


def _answers(evidence: Evidence, expectations: Expectations) -> Iterator[Charge]:
    """A reward function that raises costs answers, not the run: verl goes on and averages what is left."""
    rows = evidence.totals.validation_rows or expectations.validation_items
    if not rows:
        return
    due = rows * expectations.validation_samples
    short = {
        step: kept
        for step in _validated(evidence, expectations)
        if (kept := evidence.answers.get(step)) is not None and kept != due
    }
    if short:
        step, kept = next(iter(short.items()))
        yield incomplete(
            "RLX712",
            f"the validation at {at_steps(short)} does not cover its set: {kept} of {due} answers at step {step}",
            "search the log for errors of the reward function: rlx logs --grep Error",
            step,
        )


def _fractions(evidence: Evidence, expectations: Expectations) -> Iterator[Charge]:
    """A mean of right and wrong answers is a whole number of answers over n: a cheap test of n and of the values."""
    metric = core_metric(evidence, expectations)
    rows = evidence.totals.validation_rows or expectations.validation_items
    if metric is None or not rows or variable(metric) != "acc" or not statistic(metric).startswith("mean@"):
        return
    if len(data_sources(evidence)) > 1:
        return  # the rows are split among the sources, and the log does not say how
    answers = rows * samples(metric)
    values = finite(series(evidence, metric))
    odd = [step for step, value in values.items() if not _is_share(value, answers)]
    if odd:
        yield remark(
            "RLX708",
            Severity.WARNING,
            f"{metric} at {at_steps(odd)} is no multiple of 1/{answers}",
            "is the validation set really of that size, and the metric right or wrong per answer?",
            odd[0],
        )


def _is_share(value: float, answers: int) -> bool:
    if not 0 <= value <= 1:
        return False
    exact = value * answers
    # verl <= 0.4.1 prints three decimals only.
    tolerance = answers * (5.1e-4 if value == round(value, 3) else 1e-6)
    return math.isclose(exact, round(exact), abs_tol=tolerance, rel_tol=0)


def _contradictions(evidence: Evidence) -> Iterator[Charge]:
    if not evidence.disagreements:
        return
    first = evidence.disagreements[0]
    (one, other), (value, other_value) = first.sources, first.values
    yield unverified(
        "RLX709",
        f"{counted(len(evidence.disagreements), 'contradiction')} in the metrics; first: "
        f"{first.key} at step {first.step} is {value:g} in {one} and {other_value:g} in {other}",
        "did two runs write to one file?",
        first.step,
    )


def _restarts(evidence: Evidence) -> Iterator[Charge]:
    if evidence.restarts:
        told = "; ".join(f"attempt {restart.attempt}: {restart.reason}" for restart in evidence.restarts[-3:])
        yield remark("RLX710", Severity.NOTE, f"{counted(len(evidence.restarts), 'restart')}: {told}")


def _validated(evidence: Evidence, expectations: Expectations) -> list[int]:
    return validated_steps(evidence, core_metric(evidence, expectations))
