"""Check that the record of a run is whole: its steps, its validations and their rows.

The plan's totals are promises and the log's are what the container really ran, so where they differ the run is held
to the log's own number, the finding shows both, and the verdict is `unverified` at best: neither side is believed
silently.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.charges.run_end import SEE_WHY, reached, total_steps
from rlx.evidence.grammars import core_prefixes
from rlx.evidence.metrics import (
    core_keys,
    core_metric,
    data_sources,
    row_counts,
    series,
    validated_steps,
)
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.verdict import Charge, at_steps, counted, incomplete, remark, unverified
from rlx.model import Expectations, RunState, Severity
from rlx.model.post_metric import is_post

_VALIDATE_LAST = "choose eval.every so that the last step is validated, and launch again"


def check(given: CheckInput) -> Iterator[Charge]:
    """Charge what is missing from the end, the validations and the steps."""
    evidence, expectations, state = given.evidence, given.expectations, given.state
    if state.is_terminal:
        yield from _last_step(evidence, expectations)
    yield from _totals(evidence, expectations, state)
    yield from _metric(evidence, expectations)
    yield from _scheduled_validations(evidence, expectations)
    yield from _rows(evidence, expectations, given.has_recipe)


def _last_step(evidence: Evidence, expectations: Expectations) -> Iterator[Charge]:
    total, where = total_steps(evidence, expectations), reached(evidence, expectations)
    if total is None:
        return
    if evidence.last_step < total:
        yield incomplete("RLX701", f"the last step was not reached: {where}", SEE_WHY, evidence.last_step)
    # Also where the plan itself leaves the last step out: a value from before the end is not the run's result.
    if expectations.validation_steps and total not in _validated(evidence, expectations):
        last = max(_validated(evidence, expectations), default=None)
        seen = "no validation at all" if last is None else f"the last one is at step {last}"
        yield incomplete(
            "RLX702",
            f"step {total}, the last, was not validated: {seen}",
            SEE_WHY if evidence.last_step < total or is_post(expectations.metric) else _VALIDATE_LAST,
            total,
        )


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
    # That eval.post has not come yet, or failed, is said of the last step.
    named = core_metric(evidence, expectations) or is_post(expectations.metric)
    if not named and due and evidence.metrics:
        core = core_prefixes(evidence.backend)[0]
        shown = ", ".join(core_keys(evidence)) or f"no {core.rstrip('/')} metric"
        wanted = f"{core}…" if expectations.metric == "auto" else expectations.metric
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
    broken = [step for step in missing if step in _without_a_number(evidence, expectations)]
    # The values that remain are whole: the last one, and most of the others.
    if broken and total in validated and 2 * len(broken) <= len(expectations.validation_steps):
        missing = [step for step in missing if step not in broken]
        yield remark(
            "RLX703",
            Severity.WARNING,
            f"the validation at {at_steps(broken)} has no finite value; the last one has, and is what counts",
            "see what failed then, such as the server of the reward",
            broken[0],
        )
    if missing:
        yield incomplete("RLX703", f"no validation at {at_steps(missing)}, where one was scheduled", step=missing[0])


def _rows(evidence: Evidence, expectations: Expectations, planned: bool) -> Iterator[Charge]:
    metric = core_metric(evidence, expectations) or expectations.metric
    told, own = row_counts(evidence, expectations, metric)
    if own is not None and told is not None and own != told:
        who = "the plan" if planned else "--val-size"
        fix = "set data.val_rows to what the filter leaves, or check the file"
        yield unverified(
            "RLX705",
            f"{who} says {counted(told, 'validation row')}, the log says {own}",
            fix if planned else f"take it in again with --val-size {own}, or without",
        )


def _without_a_number(evidence: Evidence, expectations: Expectations) -> set[int]:
    metric = core_metric(evidence, expectations)
    return {step for step, value in series(evidence, metric).items() if not isfinite(value)} if metric else set()


def _validated(evidence: Evidence, expectations: Expectations) -> list[int]:
    return validated_steps(evidence, core_metric(evidence, expectations))
