"""Judge whether a quantity measured by step responds to the noise that was recorded by step.

A schedule orders the doses in time: first none, then the strongest, then ever weaker ones. So "larger than before the
noise" would also fit a quantity that only rises, and "falls with sigma" one that only falls. Agreement takes both: the
strongest doses give more than all else (Mann-Whitney, exact, one-sided, 1 %), than the weaker doses alone (5 %), and
than the steps without noise in three pairs of four, which one odd step among four cannot undo. Each difference must be
a quarter at least, as much as the floor may wander. Where all doses are alike, the largest lasting rise of the run
must be where the noise begins (medians of three steps before and after each step), or a control must have taken out
what changes with time.

Dissent is the claim that the noise was not there. It needs power: independent contributions to the gap add in squares,
so that noise which adds `least` to a floor f gives hypot(f, least). `least` is taken out of each step where it is
large enough against the floor to be seen at all. If even then the noisy steps lie below the others (Mann-Whitney at
0.1 %, and their median a tenth below that of the steps without noise and of the weaker ones), and were no quarter above
the clean ones to begin with, noise of that size cannot have been there. Anything between is inconclusive. How often
either errs: benchmarks/false_dissent.py, docs/dev/calibration.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from statistics import median

from rlx.evidence.charges.rank_test import p_larger

ALPHA = 0.01
_DOSE = 0.05
_DISSENT = 0.001
_STRONG = 0.5  # of the largest dose
_SUPERIOR = 0.75
_CLEARLY = 1.25
_SHORT = 0.9
_POWER = 0.4
_WINDOW = 3


class WitnessOutcome(StrEnum):
    """What a witness says of a record. Inconclusive is no dissent."""

    AGREES = "agrees"
    INCONCLUSIVE = "inconclusive"
    DISSENTS = "dissents"


@dataclass(frozen=True, slots=True)
class DosedStep:
    """One step: what was measured, the dose by the record (0: none), and the least that such a dose adds in squares.

    `gap` and `least` have one unit; both are finite, and `gap` is not negative.
    """

    step: int
    gap: float
    dose: float
    least: float = 0.0


@dataclass(frozen=True)
class DoseResponse:
    """The steps of a run in their order. `is_relative`: each gap is in units of a control's at the same step."""

    steps: Sequence[DosedStep]
    is_relative: bool = False

    @cached_property
    def clean(self) -> list[DosedStep]:
        return [step for step in self.steps if step.dose == 0]

    @cached_property
    def strong(self) -> list[DosedStep]:
        return [step for step in self.steps if step.dose > 0 and step.dose >= self._border]

    @cached_property
    def weak(self) -> list[DosedStep]:
        return [step for step in self.steps if 0 < step.dose < self._border]

    @cached_property
    def powered(self) -> list[DosedStep]:
        """The noisy steps whose noise must show above the floor of the clean ones."""
        floor = _middle(self.clean) if self.clean else 0.0
        return [step for step in self.steps if step.dose > 0 and shows(step.least, floor)] if self.clean else []

    @cached_property
    def _border(self) -> float:
        return _STRONG * max((step.dose for step in self.steps), default=0.0)

    @cached_property
    def p_value(self) -> float:
        """Of the strongest doses against the weaker ones and the steps without noise."""
        return p_larger(_gaps(self.strong), _gaps(self.weak + self.clean))

    @cached_property
    def outcome(self) -> WitnessOutcome:
        if not self.clean or not self.strong:
            return WitnessOutcome.INCONCLUSIVE
        if self.p_value < ALPHA and self._is_above_both() and self._follows_dose():
            return WitnessOutcome.AGREES
        return WitnessOutcome.DISSENTS if self._falls_short() else WitnessOutcome.INCONCLUSIVE

    def _is_above_both(self) -> bool:
        floor = max(_middle(each) for each in (self.weak, self.clean) if each)
        return _middle(self.strong) >= _CLEARLY * floor and _superiority(self.strong, self.clean) >= _SUPERIOR

    def _follows_dose(self) -> bool:
        if self.weak:
            return p_larger(_gaps(self.strong), _gaps(self.weak)) <= _DOSE
        return self.is_relative or self._rises_at_onset()

    def _rises_at_onset(self) -> bool:
        """Tell whether the largest lasting rise is where noise begins, and a quarter at least."""
        doses = [step.dose for step in self.steps]
        onsets = [i for i in range(1, len(doses)) if doses[i] > 0 == doses[i - 1]]
        rises = self._rises()
        at = max((rises[i] for i in onsets if i in rises), default=0.0)
        elsewhere = (rise for i, rise in rises.items() if all(abs(i - onset) >= _WINDOW for onset in onsets))
        return at >= _CLEARLY and at > max(elsewhere, default=0.0)

    def _rises(self) -> dict[int, float]:
        """Index of a step -> the median from it on over that of the steps before it, three each."""
        gaps, width = _gaps(self.steps), min(_WINDOW, len(self.clean))
        middles = [median(gaps[i : i + width]) for i in range(len(gaps) - width + 1)]
        return {i: _ratio(middles[i], middles[i - width]) for i in range(width, len(middles))}

    def _falls_short(self) -> bool:
        if not self.powered or _middle(self.powered) > _CLEARLY * _middle(self.clean):
            return False
        floor = _middle(self.clean)
        unseen = [step for step in self.steps if step.dose > 0 and not shows(step.least, floor)]
        clean, weak, short = _without_least(self.clean), _without_least(unseen), _without_least(self.powered)
        if any(median(short) > _SHORT * median(each) for each in (clean, weak) if each):
            return False
        return p_larger(clean + weak, short) < _DISSENT


def shows(least: float, floor: float) -> bool:
    """Tell whether noise that adds `least` must show above this floor, to which it adds in squares."""
    return least >= _POWER * floor


def _gaps(steps: Sequence[DosedStep]) -> list[float]:
    return [step.gap for step in steps]


def _middle(steps: Sequence[DosedStep]) -> float:
    return median(_gaps(steps))


def _ratio(value: float, base: float) -> float:
    return value / base if base else math.inf if value else 1.0


def _superiority(sample: Sequence[DosedStep], reference: Sequence[DosedStep]) -> float:
    """The share of pairs in which the first is larger: Mann and Whitney's U over the number of pairs."""
    below = sorted(_gaps(reference))
    larger = sum(bisect_left(below, step.gap) + bisect_right(below, step.gap) for step in sample)
    return larger / 2 / (len(sample) * len(below))


def _without_least(steps: Sequence[DosedStep]) -> list[float]:
    """What is left of each gap without the least contribution of its noise; negative where it was less than that."""
    squares = [step.gap**2 - step.least**2 for step in steps]
    return [math.copysign(math.sqrt(abs(square)), square) for square in squares]
