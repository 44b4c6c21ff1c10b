"""Check that a run came to its end and that its record is complete: its steps, its validations and their rows.

The plan's totals are expectations and the log's are what was really run, so where they differ the run is judged by the
log's own number, the finding shows both, and the verdict is `unverified` at best.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from math import isfinite

from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.checks.noise_by_step import training_steps
from rlx.evidence.diagnosis.diagnose import kills_words
from rlx.evidence.grammars import core_prefixes
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import (
    core_keys,
    core_metric,
    data_sources,
    finite,
    metric_of,
    row_counts,
    series,
    validated_steps,
)
from rlx.evidence.run_evidence import Evidence
from rlx.evidence.verdict import CheckFinding, at_steps, counted, incomplete, remark, unverified
from rlx.model import Expectations, RunState, Severity
from rlx.model.post_metric import is_post

_VALIDATE_LAST = "choose eval.every so that the last step is validated, and launch again"
_ENDS = {
    RunState.FAILED: ("RLX801", "failed"),
    RunState.STOPPED: ("RLX802", "was stopped"),
    RunState.LOST: ("RLX803", "was lost"),
}
SEE_WHY = "see why (rlx diagnose RUN); rlx retry RUN starts another attempt"


def check_whole(given: CheckInput) -> Iterator[CheckFinding]:
    """Report what is missing from the end, the validations and the steps."""
    evidence, expectations, state = given.evidence, given.expectations, given.state
    if state.is_terminal:
        yield from _last_step(evidence, expectations)
    yield from _totals(evidence, expectations, state)
    yield from _metric(evidence, expectations)
    yield from _scheduled_validations(evidence, expectations)
    yield from _validations_beyond(evidence, expectations)
    yield from _rows(evidence, expectations, given.has_recipe)


def _last_step(evidence: Evidence, expectations: Expectations) -> Iterator[CheckFinding]:
    total, where = total_steps(evidence, expectations), steps_reached(evidence, expectations)
    if total is None:
        return
    if evidence.last_step < total:
        yield incomplete("RLX701", f"the last step was not reached: {where}", SEE_WHY, evidence.last_step)
    # Also if the plan does not validate the last step: a value from before the end is not the run's result.
    if expectations.validation_steps and total not in _validated(evidence, expectations):
        last = max(_validated(evidence, expectations), default=None)
        seen = "no validation at all" if last is None else f"the last one is at step {last}"
        yield incomplete(
            "RLX702",
            f"step {total}, the last, was not validated: {seen}",
            SEE_WHY if evidence.last_step < total or is_post(expectations.metric) else _VALIDATE_LAST,
            total,
        )


def _totals(evidence: Evidence, expectations: Expectations, state: RunState) -> Iterator[CheckFinding]:
    own, planned = evidence.total_steps, expectations.total_steps
    if own is not None and planned is not None and own != planned:
        who = "--expect" if expectations.stated else "the plan"
        yield unverified(
            "RLX706",
            f"{who} says {counted(planned, 'step')}, the log says {own}; judged by the log's {own}",
            "check the batch size, the epochs, and how many rows the filter kept",
        )
    elif own is None and planned is None and state.is_terminal:
        yield unverified("RLX706", "neither the plan nor the log states the number of steps")


def _metric(evidence: Evidence, expectations: Expectations) -> Iterator[CheckFinding]:
    due = [step for step in expectations.validation_steps if step <= evidence.last_step]
    # A missing or failed eval.post is reported for the last step.
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


def _scheduled_validations(evidence: Evidence, expectations: Expectations) -> Iterator[CheckFinding]:
    total = total_steps(evidence, expectations)
    validated = _validated(evidence, expectations)
    missing = [
        step
        for step in expectations.validation_steps
        if evidence.metrics and step <= evidence.last_step and step != total and step not in validated
    ]
    metric = core_metric(evidence, expectations)
    values = series(evidence, metric) if metric else {}
    broken = [step for step in missing if step in values and not isfinite(values[step])]
    # The remaining values are sufficient: the last one, and most of the others.
    if broken and total in validated and 2 * len(broken) <= len(expectations.validation_steps):
        missing = [step for step in missing if step not in broken]
        yield remark(
            "RLX703",
            Severity.WARNING,
            f"the validation at {at_steps(broken)} has no finite value; the last one has one, and is used",
            "find out what failed then, such as the server of the reward",
            broken[0],
        )
    if missing:
        yield incomplete("RLX703", f"no validation at {at_steps(missing)}, where one was scheduled", step=missing[0])


def _validations_beyond(evidence: Evidence, expectations: Expectations) -> Iterator[CheckFinding]:
    """Report validations that the launch of a script did not expect; one before the training is not counted."""
    stated, total = expectations.stated, total_steps(evidence, expectations)
    if stated is None or stated.every is None:
        return
    due = {0, total, *expectations.validation_steps}
    if beyond := [step for step in _validated(evidence, expectations) if step not in due]:
        expected = f"a validation every {counted(stated.every, 'step')}" if stated.every else "no validation"
        yield unverified(
            "RLX727",
            f"--expect says {expected}, and the log has one at {at_steps(beyond)}",
            "correct --expect or the interval in the script, and launch it again",
            beyond[0],
        )


def _rows(evidence: Evidence, expectations: Expectations, planned: bool) -> Iterator[CheckFinding]:
    metric = core_metric(evidence, expectations) or expectations.metric
    told, own = row_counts(evidence, expectations, metric)
    if own is not None and told is not None and own != told:
        who, fix = "the plan", "set data.val_rows to the rows that the filter keeps, or check the file"
        if not planned:
            who, fix = "--val-size", f"import it again with --val-size {own}, or without it"
        if expectations.stated:
            who, fix = "--expect", "check the validation file of the script, or correct --expect, and launch it again"
        yield unverified("RLX705", f"{who} says {counted(told, 'validation row')}, the log says {own}", fix)
    elif own is None and expectations.stated and expectations.stated.items is not None:
        said = f"--expect says {counted(expectations.stated.items, 'validation row')}"
        yield remark("RLX705", Severity.NOTE, f"{said}, and the log does not say how many there are")


def _validated(evidence: Evidence, expectations: Expectations) -> list[int]:
    return validated_steps(evidence, core_metric(evidence, expectations))


def check_end(given: CheckInput) -> Iterator[CheckFinding]:
    evidence, state = given.evidence, given.state
    where = steps_reached(evidence, given.expectations)
    if not state.is_terminal:
        yield incomplete("RLX906", f"interim: the run is {state}, {where}", "wait for its end")
    if state in _ENDS:
        id, ended = _ENDS[state]
        # In a run that was stopped, processes that the kernel killed are not the reason of its end.
        is_killed = evidence.memory_kills and state is not RunState.STOPPED
        why = f"; {kills_words(evidence.memory_kills)} (rlx diagnose: RLX888)" if is_killed else ""
        yield incomplete(id, f"the run {ended} after {where}{why}", SEE_WHY)


def total_steps(evidence: Evidence, expectations: Expectations) -> int | None:
    """Return the step at which the run ends: by its own log, else as planned."""
    return evidence.total_steps or expectations.total_steps


def steps_reached(evidence: Evidence, expectations: Expectations) -> str:
    """Write `step 7 of 20`."""
    total = total_steps(evidence, expectations)
    return f"step {evidence.last_step}" + (f" of {total}" if total else "")


def check_last_validation(given: CheckInput) -> Iterator[CheckFinding]:
    """Check that the last validation in the log has a value, because no schedule states when it was due."""
    if not given.state.is_terminal:
        return
    evidence = given.evidence
    metric = core_metric(evidence, given.expectations)
    step, value = max(series(evidence, metric).items()) if metric else (0, 0.0)
    if not math.isfinite(value):
        message = f"the last validation, at step {step}, has no finite value: {metric} is {value}"
        yield incomplete("RLX702", message, "see why (rlx diagnose RUN)", step)


def check_generated_batches(given: CheckInput) -> Iterator[CheckFinding]:
    """Report steps without the number of generated batches, or with an impossible one. Only DAPO logs them."""
    evidence, promised = given.evidence, given.expectations.batches
    if promised is None:
        return
    name = metric_of(evidence, Role.GENERATED_BATCHES)
    generated = finite(series(evidence, name))
    if silent := [step for step in training_steps(evidence) if step not in generated]:
        yield unverified(
            "RLX725",
            f"{name or 'the number of batches'} is not logged at {counted(len(silent), 'step')}, "
            "so a trainer other than DAPO's may have run",
            "check that backend.trainer names the program that the log starts with",
            silent[0],
        )
    if beyond := [step for step, batches in generated.items() if batches not in promised]:
        yield unverified(
            "RLX726",
            f"{generated[beyond[0]]:g} batches were generated at {at_steps(beyond)}, but the plan says {promised}",
            "check whether data.gen_batch_size, the batch size or max_num_gen_batches differed",
            beyond[0],
        )
