"""Series of metrics without their noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rlx.evidence.metrics import finite, series
from rlx.evidence.run_evidence import Evidence

WINDOW = 5
"""An odd number, so that the median is one of the values."""
FEWEST = 4 * WINDOW
"""Fewer steps say nothing about a trend."""


def medians(evidence: Evidence, key: str) -> Mapping[int, float]:
    """step -> median over it and the steps before it; empty for a run that is too short."""
    found = finite(series(evidence, key))
    steps, values = list(found), list(found.values())
    if len(steps) < FEWEST:
        return {}
    return {step: sorted(values[at : at + WINDOW])[WINDOW // 2] for at, step in enumerate(steps[WINDOW - 1 :])}


def lasting(values: Mapping[int, float], is_so: Callable[[float], bool]) -> int | None:
    """Find the step from which on it is so until the end, for a window at least."""
    since: list[int] = []
    for step, value in values.items():
        if is_so(value):
            since.append(step)
        else:
            since.clear()
    return since[0] if len(since) >= WINDOW else None


def first(values: Mapping[int, float]) -> float:
    """Return the value at the start; 0 where there is nothing."""
    return next(iter(values.values()), 0.0)


def last(values: Mapping[int, float]) -> float:
    return values[max(values)]
