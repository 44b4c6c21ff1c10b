"""Metrics by step from a source that may repeat steps or go back. The later line wins; what it contradicts is kept."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

from rlx.evidence.values import Disagreement, Restart

# verl <= 0.4.1 prints three decimals; half of the last one, with room for binary fractions.
_PRINTED_DECIMALS = 3
_ROUNDING = 0.5 * 10**-_PRINTED_DECIMALS * 1.02
RESUMED = "resumed from the checkpoint of step"
WENT_BACK = "follows step"
# float32 scalars are printed with fewer digits than the metrics file holds.
_RELATIVE = 1e-6


class Timeline:
    """step -> metric -> value, with the restarts and contradictions met on the way."""

    def __init__(self, source: str, attempt: int) -> None:
        self.steps: dict[int, dict[str, float]] = {}
        self.restarts: list[Restart] = []
        self.disagreements: list[Disagreement] = []
        self._source = source
        self._attempt = attempt
        self._last: int | None = None
        self._resumed = False

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Record one metrics line. A step below the last one starts over from there."""
        if self._last is not None and step < self._last:
            reason = f"{self._source}: step {step} {WENT_BACK} {self._last}"
            self._rewind(step, reason)
        known = self.steps.setdefault(step, {})
        if step == self._last and not self._resumed:
            self.disagreements += disagreements(step, known, values, (self._source, self._source))
        known.update({sys.intern(key): value for key, value in values.items()})
        self._last, self._resumed = step, False

    def resume(self, step: int) -> None:
        """A line says that training goes on from the checkpoint of `step`."""
        if self._resumed and self._last == step:
            return  # verl says it in two lines
        self._rewind(step, f"{RESUMED} {step}")
        self._last, self._resumed = step, True

    def _rewind(self, step: int, reason: str) -> None:
        self.restarts.append(Restart(self._attempt, step, reason))
        drop_after(self.steps, step)


def drop_after(steps: dict[int, dict[str, float]], step: int) -> None:
    """Forget the steps after `step`: the weights they measured were thrown away with the restart."""
    for later in [known for known in steps if known > step]:
        del steps[later]


def disagreements(
    step: int, first: Mapping[str, float], second: Mapping[str, float], sources: tuple[str, str]
) -> list[Disagreement]:
    """The metrics that both have with values further apart than rounding explains."""
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
