"""Judge the two steps of a rehearsal: which parts of a recipe worked, and which did not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rlx.evidence.charges import trained_on
from rlx.evidence.charges.gap_test import gaps_of
from rlx.evidence.charges.promised_noise import training_steps
from rlx.evidence.diagnosis import Hit
from rlx.evidence.grammars import grammars
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import is_core, metric_of, series
from rlx.evidence.reading.reward_calls import RewardCalls
from rlx.evidence.run_evidence import ROLLOUT, Evidence
from rlx.evidence.verdict import Verdict, VerdictStatus, at_steps
from rlx.model import Expectations, Finding, RunState, Severity


@dataclass(frozen=True, slots=True)
class Check:
    """A part of the recipe. `passed` is None where the rehearsal did not come so far."""

    name: str
    passed: bool | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Rehearsed:
    checks: tuple[Check, ...]
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        return not any(finding.severity is Severity.ERROR for finding in self.findings)


def rehearsed(
    evidence: Evidence,
    expected: Expectations,
    verdict: Verdict,
    state: RunState,
    rewards: RewardCalls,
    cause: Hit | None,
) -> Rehearsed:
    """`cause`: the primary cause that the diagnosis names in the log, if any."""
    checks = (
        _configuration(evidence),
        _data(evidence),
        _rollout(evidence),
        _reward(rewards),
        _sync(evidence),
        _update(evidence),
        _validation(evidence, expected),
        *_noise(evidence, expected, verdict),
    )
    return Rehearsed(checks, tuple(_findings(checks, state, rewards, verdict, cause, _trainer(evidence))))


def _configuration(evidence: Evidence) -> Check:
    total = evidence.totals.total_steps
    return Check(
        f"configuration composed and validated by {_trainer(evidence)}",
        True if total else None,
        f"{total} steps" if total else "",
    )


def _trainer(evidence: Evidence) -> str:
    return grammars(evidence.backend)[0].title


def _data(evidence: Evidence) -> Check:
    rows = (evidence.totals.train_rows, evidence.totals.validation_rows)
    read = all(rows)
    return Check(
        "data read", True if read else None, f"{rows[0]} training rows, {rows[1]} validation rows" if read else ""
    )


def _rollout(evidence: Evidence) -> Check:
    lengths = series(evidence, metric_of(evidence, Role.RESPONSE_LENGTH))
    steps = [step for step in training_steps(evidence) if step in lengths]
    if not steps:
        return Check("rollout", None)
    return Check("rollout", True, f"answers of {lengths[steps[0]]:.0f} tokens, {at_steps(steps)}")


def _reward(rewards: RewardCalls) -> Check:
    if not rewards.count:
        return Check("reward", None)
    failed = rewards.failed + rewards.not_finite
    scores = "no score" if rewards.low is None else f"scores {rewards.low:g} to {rewards.high:g}"
    return Check("reward", not failed, f"{rewards.count} answers, {scores}, {1000 * rewards.seconds:.2g} ms each")


def _sync(evidence: Evidence) -> Check:
    gaps, times = (series(evidence, metric_of(evidence, role)) for role in (Role.PROBABILITY_GAP, Role.SYNC_SECONDS))
    if not gaps:
        return Check("weight sync", None)
    first = min(gaps)
    took = f", {max(times.values()):.1f} s" if times else ""
    return Check("weight sync", True, f"rollout and actor differ by {gaps[first]:.1g} at step {first}{took}")


def _update(evidence: Evidence) -> Check:
    steps = training_steps(evidence)
    names = [metric_of(evidence, role) for role in (Role.GRAD_NORM, Role.POLICY_LOSS)]
    values = {key: series(evidence, key) for key in names}
    if not any(values.values()):
        return Check("actor update", None)
    lost = [f"{key} at step {step}" for key in names for step in steps if not _finite(values[key].get(step))]
    if lost:
        return Check("actor update", False, f"not finite: {', '.join(lost)}")
    norms = [values[names[0]][step] for step in steps]
    remark = "" if any(norms) else ": the answers to a prompt scored alike, so there was nothing to learn"
    return Check("actor update", True, f"gradient norms {', '.join(f'{norm:.2g}' for norm in norms)}{remark}")


def _validation(evidence: Evidence, expected: Expectations) -> Check:
    if not expected.validation_steps:
        return Check("validation", None, "the recipe never validates")
    found = {step: _core(values) for step, values in evidence.metrics.items() if _core(values)}
    if not found:
        return Check("validation", None)
    lost = [step for step in expected.validation_steps if not found.get(step)]
    odd = [key for values in found.values() for key, value in values.items() if not math.isfinite(value)]
    name, value = next(iter(found[max(found)].items()))
    detail = f"{at_steps(found)}, {name} {value:g}"
    if lost:
        detail = f"none at {at_steps(lost)}"
    return Check("validation", not lost and not odd, f"not finite: {', '.join(odd)}" if odd else detail)


def _core(values: Mapping[str, float]) -> Mapping[str, float]:
    return {key: value for key, value in values.items() if is_core(key)}


def _noise(evidence: Evidence, expected: Expectations, verdict: Verdict) -> Iterator[Check]:
    if expected.noise is None:
        return
    events = [event for event in evidence.noise if event.phase == ROLLOUT and event.is_noisy]
    if not evidence.metrics:
        yield Check("noise", None)
        return
    steps = sorted({event.step for event in events if event.step is not None})
    gaps = gaps_of(evidence, None, expected.witness)
    applied = f"{events[0].layers} layers, sigma {events[0].sigma:g} at {at_steps(steps)}" if events else "none applied"
    apart = ", ".join(f"{gaps[step]:.1g} at step {step}" for step in sorted(gaps))
    # Two steps of a model in small need not learn anything.
    broken = verdict.status is VerdictStatus.INVALID and verdict.findings[0].id not in trained_on.INVALID
    yield Check("noise applied (witness 1)", bool(events) and not broken, applied)
    quiet = [gap for step, gap in gaps.items() if step not in steps]
    loud = [gaps[step] for step in steps if step in gaps]
    seen = bool(loud and quiet) and min(loud) > max(quiet)
    yield Check("noise seen in the probabilities (witness 2)", seen if loud and quiet else None, apart)


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _findings(
    checks: Sequence[Check],
    state: RunState,
    rewards: RewardCalls,
    verdict: Verdict,
    cause: Hit | None,
    trainer: str,
) -> Iterator[Finding]:
    if rewards.failed:
        message = f"the reward function failed for {rewards.failed} of {rewards.count} answers: {rewards.error}"
        yield _error(
            "RLX561", message, f"{trainer} goes on without these answers and no metric tells: correct the function"
        )
    if rewards.not_finite:
        message = f"the reward was not finite for {rewards.not_finite} of {rewards.count} answers"
        yield _error("RLX561", message, "return a finite number for any answer")
    if state is not RunState.FINISHED:
        yield _unfinished(checks, state, cause)
    elif not rewards.count:
        yield _error(
            "RLX562", "the reward function was never called", f"does {trainer} take the reward from elsewhere?"
        )
    for check in checks:
        if check.passed is False and check.name != "reward":
            yield _error("RLX563", f"{check.name}: {check.detail}", "read the log of the rehearsal")
    if verdict.status is VerdictStatus.INVALID:
        # Two steps of a model in small need not learn anything; the check of the update says so.
        found = (one for one in verdict.findings if one.id not in trained_on.INVALID)
        yield from (one for one in found if one.severity is Severity.ERROR)


def _unfinished(checks: Sequence[Check], state: RunState, cause: Hit | None) -> Finding:
    reached = (
        f"after {', '.join(check.name for check in checks if check.passed)}" if checks[0].passed else "at its start"
    )
    if state is RunState.STOPPED:
        message = f"the time was up; the rehearsal was {reached}"
        return _error("RLX564", message, "look into its log for what it waits for, or give it longer: --timeout 30m")
    if cause is None:
        return _error("RLX560", f"the rehearsal {state} {reached}", "nothing in its log is known to rlx: read it")
    why = f"{cause.id} {cause.name}: {cause.exception or cause.text}"
    return _error("RLX560", f"the rehearsal {state} {reached}: {why}", cause.fix)


def _error(id: str, message: str, fix: str) -> Finding:
    return Finding(id, Severity.ERROR, message, fix)
