"""Judge the two steps of a smoke test: which parts of a recipe worked, and which did not."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlx.evidence.checks import training_on_noise
from rlx.evidence.checks.gap_test import gaps_of
from rlx.evidence.checks.noise_by_step import training_steps
from rlx.evidence.diagnosis import Hit
from rlx.evidence.grammars import grammars
from rlx.evidence.log_grammar import Role
from rlx.evidence.metrics import is_core, metric_of, series
from rlx.evidence.run_evidence import ROLLOUT, Evidence
from rlx.evidence.verdict import Verdict, VerdictStatus, at_steps
from rlx.model import Expectations, Finding, RunState, Severity


@dataclass(frozen=True, slots=True)
class SmokeTestPart:
    """A part of the recipe. `passed` is None where the smoke test did not get that far."""

    name: str
    passed: bool | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SmokeTestResult:
    checks: tuple[SmokeTestPart, ...]
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
) -> SmokeTestResult:
    """Judge each part of the recipe. `cause`: the primary cause that the diagnosis finds in the log, if any."""
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
    return SmokeTestResult(checks, tuple(_findings(checks, state, rewards, verdict, cause, _trainer(evidence))))


def _configuration(evidence: Evidence) -> SmokeTestPart:
    total = evidence.totals.total_steps
    return SmokeTestPart(
        f"configuration composed and validated by {_trainer(evidence)}",
        True if total else None,
        f"{total} steps" if total else "",
    )


def _trainer(evidence: Evidence) -> str:
    return grammars(evidence.backend)[0].title


def _data(evidence: Evidence) -> SmokeTestPart:
    rows = (evidence.totals.train_rows, evidence.totals.validation_rows)
    read = all(rows)
    return SmokeTestPart(
        "data read", True if read else None, f"{rows[0]} training rows, {rows[1]} validation rows" if read else ""
    )


def _rollout(evidence: Evidence) -> SmokeTestPart:
    lengths = series(evidence, metric_of(evidence, Role.RESPONSE_LENGTH))
    steps = [step for step in training_steps(evidence) if step in lengths]
    if not steps:
        return SmokeTestPart("rollout", None)
    return SmokeTestPart("rollout", True, f"answers of {lengths[steps[0]]:.0f} tokens, {at_steps(steps)}")


def _reward(rewards: RewardCalls) -> SmokeTestPart:
    if not rewards.count:
        return SmokeTestPart("reward", None)
    failed = rewards.failed + rewards.not_finite
    scores = "no score" if rewards.low is None else f"scores {rewards.low:g} to {rewards.high:g}"
    return SmokeTestPart(
        "reward", not failed, f"{rewards.count} answers, {scores}, {1000 * rewards.seconds:.2g} ms each"
    )


def _sync(evidence: Evidence) -> SmokeTestPart:
    gaps, times = (series(evidence, metric_of(evidence, role)) for role in (Role.PROBABILITY_GAP, Role.SYNC_SECONDS))
    if not gaps:
        return SmokeTestPart("weight sync", None)
    first = min(gaps)
    took = f", {max(times.values()):.1f} s" if times else ""
    return SmokeTestPart("weight sync", True, f"rollout and actor differ by {gaps[first]:.1g} at step {first}{took}")


def _update(evidence: Evidence) -> SmokeTestPart:
    steps = training_steps(evidence)
    names = [metric_of(evidence, role) for role in (Role.GRAD_NORM, Role.POLICY_LOSS)]
    values = {key: series(evidence, key) for key in names}
    if not any(values.values()):
        return SmokeTestPart("actor update", None)
    lost = [f"{key} at step {step}" for key in names for step in steps if not _finite(values[key].get(step))]
    if lost:
        return SmokeTestPart("actor update", False, f"not finite: {', '.join(lost)}")
    norms = [values[names[0]][step] for step in steps]
    remark = "" if any(norms) else ": the answers to a prompt had equal scores, so there was nothing to learn"
    return SmokeTestPart("actor update", True, f"gradient norms {', '.join(f'{norm:.2g}' for norm in norms)}{remark}")


def _validation(evidence: Evidence, expected: Expectations) -> SmokeTestPart:
    if not expected.validation_steps:
        return SmokeTestPart("validation", None, "the recipe never validates")
    found = {step: _core(values) for step, values in evidence.metrics.items() if _core(values)}
    if not found:
        return SmokeTestPart("validation", None)
    lost = [step for step in expected.validation_steps if not found.get(step)]
    odd = [key for values in found.values() for key, value in values.items() if not math.isfinite(value)]
    name, value = next(iter(found[max(found)].items()))
    detail = f"{at_steps(found)}, {name} {value:g}"
    if lost:
        detail = f"none at {at_steps(lost)}"
    return SmokeTestPart("validation", not lost and not odd, f"not finite: {', '.join(odd)}" if odd else detail)


def _core(values: Mapping[str, float]) -> Mapping[str, float]:
    return {key: value for key, value in values.items() if is_core(key)}


def _noise(evidence: Evidence, expected: Expectations, verdict: Verdict) -> Iterator[SmokeTestPart]:
    if expected.noise is None:
        return
    events = [event for event in evidence.noise if event.phase == ROLLOUT and event.is_noisy]
    if not evidence.metrics:
        yield SmokeTestPart("noise", None)
        return
    steps = sorted({event.step for event in events if event.step is not None})
    gaps = gaps_of(evidence, None, expected.witness)
    applied = f"{events[0].layers} layers, sigma {events[0].sigma:g} at {at_steps(steps)}" if events else "none applied"
    apart = ", ".join(f"{gaps[step]:.1g} at step {step}" for step in sorted(gaps))
    # Two steps of a model in small need not learn anything.
    broken = verdict.status is VerdictStatus.INVALID and verdict.findings[0].id not in training_on_noise.INVALID
    yield SmokeTestPart("noise applied", bool(events) and not broken, applied)
    quiet = [gap for step, gap in gaps.items() if step not in steps]
    loud = [gaps[step] for step in steps if step in gaps]
    seen = bool(loud and quiet) and min(loud) > max(quiet)
    yield SmokeTestPart("noise visible in the probabilities", seen if loud and quiet else None, apart)


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _findings(
    checks: Sequence[SmokeTestPart],
    state: RunState,
    rewards: RewardCalls,
    verdict: Verdict,
    cause: Hit | None,
    trainer: str,
) -> Iterator[Finding]:
    if rewards.failed:
        message = f"the reward function failed for {rewards.failed} of {rewards.count} answers: {rewards.error}"
        yield _error(
            "RLX561", message, f"{trainer} continues without these answers and no metric shows it: correct the function"
        )
    if rewards.not_finite:
        message = f"the reward was not finite for {rewards.not_finite} of {rewards.count} answers"
        yield _error("RLX561", message, "return a finite number for any answer")
    if state is not RunState.FINISHED:
        yield _unfinished(checks, state, cause)
    elif not rewards.count:
        yield _error(
            "RLX562",
            "the reward function was never called",
            f"find out whether {trainer} takes the reward from another place",
        )
    for check in checks:
        if check.passed is False and check.name != "reward":
            yield _error("RLX563", f"{check.name}: {check.detail}", "read the log of the smoke test")
    if verdict.status is VerdictStatus.INVALID:
        # Two steps of a model in small need not learn anything; the check of the update says so.
        found = (one for one in verdict.findings if one.id not in training_on_noise.INVALID)
        yield from (one for one in found if one.severity is Severity.ERROR)


def _unfinished(checks: Sequence[SmokeTestPart], state: RunState, cause: Hit | None) -> Finding:
    reached = (
        f"after {', '.join(check.name for check in checks if check.passed)}" if checks[0].passed else "at its start"
    )
    if state is RunState.STOPPED:
        message = f"the time limit was reached; the smoke test was {reached}"
        return _error("RLX564", message, "read in its log what it waits for, or allow more time: --timeout 30m")
    if cause is None:
        return _error("RLX560", f"the smoke test {state} {reached}", "rlx knows nothing in its log: read it")
    why = f"{cause.id} {cause.name}: {cause.exception or cause.text}"
    return _error("RLX560", f"the smoke test {state} {reached}: {why}", cause.fix)


def _error(id: str, message: str, fix: str) -> Finding:
    return Finding(id, Severity.ERROR, message, fix)


@dataclass(frozen=True, slots=True)
class RewardCalls:
    """`count` calls, `failed` of them without a number; `error` is the first failure. `low` to `high` are the scores.

    `not_finite`: calls whose score was NaN or infinite. `seconds`: mean of a call.
    """

    count: int = 0
    failed: int = 0
    not_finite: int = 0
    error: str = ""
    low: float | None = None
    high: float | None = None
    seconds: float = 0.0


def read_reward_calls(attempt: Path) -> RewardCalls:
    """Read all calls of an attempt (payload/rehearsed_reward.py). A truncated line is not a call."""
    calls = list(_calls(attempt / "rewards"))
    errors = [str(call["error"]) for call in calls if "error" in call]
    scores = [float(call["score"]) for call in calls if call.get("score") is not None]
    return RewardCalls(
        count=len(calls),
        failed=len(errors),
        not_finite=len(calls) - len(errors) - len(scores),
        error=errors[0] if errors else "",
        low=min(scores, default=None),
        high=max(scores, default=None),
        seconds=sum(float(call["seconds"]) for call in calls) / len(calls) if calls else 0.0,
    )


def _calls(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                call = json.loads(line)
            except ValueError:
                continue
            if isinstance(call, dict):
                yield call
