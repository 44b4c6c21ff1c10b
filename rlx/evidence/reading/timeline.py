"""Collect metrics by step from a source that may repeat steps or go back.

The later line counts; values that it contradicts are kept as disagreements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlx.evidence.reading.metric_table import MetricTable
from rlx.evidence.run_evidence import Disagreement, Restart

# verl <= 0.4.1 prints three decimals; half of the last one, with room for binary fractions.
_PRINTED_DECIMALS = 3
_ROUNDING = 0.5 * 10**-_PRINTED_DECIMALS * 1.02
RESUMED = "resumed from the checkpoint of step"
WENT_BACK = "follows step"
# float32 scalars are printed with fewer digits than the metrics file holds.
_RELATIVE = 1e-6


class Timeline:
    """step -> metric -> value, with the restarts and contradictions in the source."""

    def __init__(self, source: str, attempt: int) -> None:
        self.steps = MetricTable()
        self.restarts: list[Restart] = []
        self.disagreements: list[Disagreement] = []
        self.source = source
        self._attempt = attempt
        self._last: int | None = None
        self._resumed = False

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Record one metrics line. A step below the last one restarts from there."""
        if self._last is not None and step < self._last:
            reason = f"{self.source}: step {step} {WENT_BACK} {self._last}"
            self._rewind(step, reason)
        if step == self._last and not self._resumed:
            known = self.steps[step]
            self.disagreements += disagreements(step, known, values, (self.source, self.source))
        self.steps.put(step, values)
        self._last, self._resumed = step, False

    @property
    def last_step(self) -> int:
        """The step of the last line; 0 before the first."""
        return self._last or 0

    def resume(self, step: int) -> None:
        """Record that training continues from the checkpoint of `step`."""
        if self._resumed and self._last == step:
            return  # verl says it in two lines
        self._rewind(step, f"{RESUMED} {step}")
        self._last, self._resumed = step, True

    def _rewind(self, step: int, reason: str) -> None:
        self.restarts.append(Restart(self._attempt, step, reason))
        # The weights that the later steps measured were thrown away.
        self.steps = self.steps.until(step)

    def state(self) -> dict[str, Any]:
        """Return all but the metrics, as JSON."""
        return {
            "last": self._last,
            "resumed": self._resumed,
            "restarts": [[restart.attempt, restart.step, restart.reason] for restart in self.restarts],
            "disagreements": [[each.step, each.key, each.sources, each.values] for each in self.disagreements],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self._last, self._resumed = state["last"], state["resumed"]
        self.restarts = [Restart(*values) for values in state["restarts"]]
        self.disagreements = [
            Disagreement(step, key, (sources[0], sources[1]), (values[0], values[1]))
            for step, key, sources, values in state["disagreements"]
        ]


def contradictions(first: Timeline, second: Timeline) -> list[Disagreement]:
    """Find where two sources give one metric of one step different values, by step."""
    sources = first.source, second.source
    found = [
        disagreement
        for key, column in first.steps.columns.items()
        if (other := second.steps.columns.get(key)) is not None and not column.equals(other)
        for disagreement in disagreements_of(key, first.steps.series(key), second.steps.series(key), sources)
    ]
    return sorted(found, key=lambda each: (each.step, each.key))


def disagreements_of(
    key: str, one: Mapping[int, float], other: Mapping[int, float], sources: tuple[str, str]
) -> list[Disagreement]:
    """Return the common steps at which one metric has values further apart than rounding explains."""
    both = ((step, value, other[step]) for step, value in one.items() if step in other)
    return [Disagreement(step, key, sources, (mine, theirs)) for step, mine, theirs in both if not _same(mine, theirs)]


def disagreements(
    step: int, first: Mapping[str, float], second: Mapping[str, float], sources: tuple[str, str]
) -> list[Disagreement]:
    """Return the common metrics with values further apart than rounding explains."""
    return [
        Disagreement(step, key, sources, (first[key], second[key]))
        for key in first.keys() & second.keys()
        if not _same(first[key], second[key])
    ]


def _same(one: float, other: float) -> bool:
    if one == other or (math.isnan(one) and math.isnan(other)):
        return True
    if math.isclose(one, other, rel_tol=_RELATIVE, abs_tol=1e-12):
        return True
    rounded = any(value == round(value, _PRINTED_DECIMALS) for value in (one, other) if math.isfinite(value))
    return rounded and abs(one - other) <= _ROUNDING
