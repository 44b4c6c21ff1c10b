"""The effect on hard, middling and easy items. How hard an item is, other runs say than those that the effect is of.

Items that a run of the control got wrong by bad luck are answered better by any other run, of the control as well.
Groups that were made by the same answers as the effect therefore show a gain on the hard items and a loss on the easy
ones, of a treatment that does nothing (regression to the mean: Galton 1886, J. Anthropol. Inst. 15:246-263).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from rlx.compare.arm_items import ArmItems, SeedItems

NAMES = ("hard: up to a third right", "middling", "easy: more than two thirds right")
_BORDERS = (-1.0, 1 / 3, 2 / 3, 1.0)


@dataclass(frozen=True, slots=True)
class Group:
    """The items of one difficulty: how many, the mean scores of both arms, and the difference.

    All are means over the control's runs, each of which stands for the control once, while the others say how hard the
    items are. `differences` has one for each of these runs that had items of this kind.
    """

    name: str
    items: float
    control: float
    treatment: float
    differences: tuple[float, ...]

    @property
    def difference(self) -> float:
        return fmean(self.differences)


def by_difficulty(found: ArmItems) -> list[Group]:
    """The groups that have items; none with one run of the control, or scores that are no shares from 0 to 1."""
    runs = (*found.control, *found.treatment)
    if len(found.control) < 2 or not all(0 <= score <= 1 for run in runs for score in run.means.values()):
        return []
    parts = [(name, list(_parts(found, bounds))) for name, bounds in zip(NAMES, pairwise(_BORDERS), strict=True)]
    return [_group(name, own) for name, own in parts if own]


def _group(name: str, parts: Sequence[tuple[int, float, float]]) -> Group:
    items, control, treatment = zip(*parts, strict=True)
    differences = tuple(right - left for _, left, right in parts)
    return Group(name, fmean(items), fmean(control), fmean(treatment), differences)


def _parts(found: ArmItems, bounds: tuple[float, float]) -> Iterator[tuple[int, float, float]]:
    """Number of items, score of control and treatment, with each run of the control in turn as the control."""
    for left_out in found.control:
        others = [run for run in found.control if run is not left_out]
        items = [item for item in found.items if bounds[0] < fmean(run.means[item] for run in others) <= bounds[1]]
        if items:
            yield len(items), _score([left_out], items), _score(found.treatment, items)


def _score(runs: Sequence[SeedItems], items: Sequence[str]) -> float:
    return fmean(run.means[item] for run in runs for item in items)
