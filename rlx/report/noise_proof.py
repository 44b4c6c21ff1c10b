"""Collect what proves a verdict: noise records by stretches of equal steps, and what the log says of itself."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from rlx.evidence import Evidence, JudgedRun, NoiseEvent, gap_metric, series
from rlx.evidence.charges.promised_noise import planned_sigmas, sigma_at
from rlx.evidence.run_evidence import VALIDATION
from rlx.evidence.verdict import counted, ranges

_MOST_ROWS = 60
_MOST_FACTS = 20


@dataclass(frozen=True, slots=True)
class Records:
    """The records of consecutive steps that say the same, ready to be shown.

    `expected`: as planned, which is for reading only; the verdict says what follows.
    """

    steps: str
    phase: str
    planned: str
    applied: str
    layers: str
    changed: str
    gap: str
    source: str
    expected: bool


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of one phase with its records."""

    step: int
    phase: str
    planned: float
    events: tuple[NoiseEvent, ...]

    @property
    def says(self) -> tuple[str, str, str, str]:
        """The facts that must be equal for steps to share a row."""
        return (self.phase, _sigma(self.planned), _applied(self.events), _layers(self.events))


def record_rows(run: JudgedRun) -> tuple[list[Records], int]:
    """The rows, at most some dozens, and how many more there are. No rows for a run without noise or records."""
    witness = series(run.evidence, gap_metric(run.evidence, run.plan.expectations.witness))
    gaps = {step: abs(gap) for step, gap in witness.items()}
    groups = (list(group) for _, group in groupby(_steps(run), key=lambda step: step.says))
    rows = [_row(group, gaps) for group in groups]
    return rows[:_MOST_ROWS], max(0, len(rows) - _MOST_ROWS)


def _steps(run: JudgedRun) -> Iterator[_Step]:
    """Every step that was promised something or has a record: rollouts first, then validations."""
    noise, evidence = run.plan.expectations.noise, run.evidence
    sigmas = planned_sigmas(noise, evidence) if noise else ()
    by_step: dict[tuple[bool, int], list[NoiseEvent]] = defaultdict(list)
    for event in evidence.noise:
        # The last sync prepares a rollout that never comes.
        if event.step is not None and event.step <= evidence.last_step:
            by_step[event.phase == VALIDATION, event.step].append(event)
    for step in range(1, min(len(sigmas), evidence.last_step) + 1):
        by_step.setdefault((False, step), [])
    for (validation, step), events in sorted(by_step.items(), key=lambda item: item[0]):
        if validation:
            yield _Step(step, "validation", math.nan if noise and noise.in_validation else 0.0, tuple(events))
        else:
            yield _Step(step, "rollout", sigma_at(sigmas, step), tuple(events))


def _row(steps: Sequence[_Step], gaps: Mapping[int, float]) -> Records:
    events = [event for step in steps for event in step.events]
    seen = [gaps[step.step] for step in steps if math.isfinite(gaps.get(step.step, math.nan))]
    first = steps[0]
    return Records(
        steps=ranges(step.step for step in steps),
        phase=first.phase,
        planned="as declared" if math.isnan(first.planned) else _sigma(first.planned),
        applied=_applied(first.events),
        layers=_layers(first.events),
        changed=_changed(events),
        gap=f"{median(seen):.2g}" if seen and first.phase == "rollout" else "",
        source=", ".join(sorted({event.source for event in events})),
        expected=_as_planned(first),
    )


def _as_planned(step: _Step) -> bool:
    if math.isnan(step.planned):
        return True
    if not step.planned:
        return not any(event.is_noisy for event in step.events)
    return _applied(step.events) == _sigma(step.planned)


def _sigma(sigma: float) -> str:
    return "?" if math.isnan(sigma) else f"{sigma:.4g}"


def _applied(events: Sequence[NoiseEvent]) -> str:
    """The last sync of a step counts; several processes that differ are all named."""
    if not events:
        return "no record"
    return ", ".join(sorted({_sigma(event.sigma if event.layers else 0.0) for event in events}))


def _layers(events: Sequence[NoiseEvent]) -> str:
    return ", ".join(sorted({f"{event.layers} {event.kind}".strip() for event in events}))


def _changed(events: Sequence[NoiseEvent]) -> str:
    """Compute which share of the weights still differed after rounding."""
    shares = [
        event.changed / event.elements
        for event in events
        if event.changed is not None and event.elements and event.is_noisy
    ]
    if not shares:
        return ""
    low, high = f"{100 * min(shares):.3g}", f"{100 * max(shares):.3g}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def log_facts(evidence: Evidence) -> list[tuple[str, str]]:
    """List what the log says of the run as (what, value): totals, ends, restarts, contradictions."""
    totals = evidence.totals
    facts = [
        ("last step with metrics", str(evidence.last_step)),
        ("steps the run meant to take", _or_unsaid(evidence.total_steps)),
        ("rows of training data", _or_unsaid(totals.train_rows)),
        ("rows of validation data", _or_unsaid(totals.validation_rows)),
    ]
    if evidence.progress:
        facts.append(("progress bar", f"{evidence.progress.done} of {evidence.progress.total}"))
    if evidence.attempts > 1:
        facts.append(("attempts", str(evidence.attempts)))
    facts += [("restart", f"attempt {each.attempt}, step {each.step}: {each.reason}") for each in evidence.restarts]
    facts += [
        (f"contradiction at step {each.step}", f"{each.key}: {_both(each.sources, each.values)}")
        for each in evidence.disagreements[:_MOST_FACTS]
    ]
    if unplaced := sum(event.step is None for event in evidence.noise):
        facts.append(("noise lines without a step", counted(unplaced, "line")))
    return facts


def _both(sources: tuple[str, str], values: tuple[float, float]) -> str:
    return " and ".join(f"{source} {value:.6g}" for source, value in zip(sources, values, strict=True))


def _or_unsaid(number: int | None) -> str:
    return "the log does not say" if number is None else str(number)
