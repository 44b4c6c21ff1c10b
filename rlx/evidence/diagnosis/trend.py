"""Series of metrics without their noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median

from rlx.evidence.metrics import finite, series
from rlx.evidence.run_evidence import Evidence

WINDOW = 5
FEWEST = 4 * WINDOW
"""Fewer steps say nothing about a trend."""


def medians(evidence: Evidence, key: str) -> Mapping[int, float]:
    """step -> median over it and the steps before it; empty for a run that is too short."""
    values = finite(series(evidence, key))
    steps = list(values)
    if len(steps) < FEWEST:
        return {}
    return {
        steps[at]: median(values[step] for step in steps[at - WINDOW + 1 : at + 1])
        for at in range(WINDOW - 1, len(steps))
    }


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
