"""The items that turn most often between control and treatment, over their seeds. Some always do, by chance."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from rlx.compare.arm_items import ArmItems


@dataclass(frozen=True, slots=True)
class Flip:
    """An item with its mean score over the runs of each arm. `better`, `worse`: in how many of the pairs of runs."""

    item: str
    prompt: str
    control: float
    treatment: float
    better: int
    worse: int


def flips(found: ArmItems) -> list[Flip]:
    """The items that turned in any pair of runs, those first that turned most often in one direction.

    An item that turns both ways is one that both arms answer by luck.
    """
    every = (_flip(found, item) for item in found.items)
    turned = [each for each in every if each.better or each.worse]
    return sorted(turned, key=lambda each: (-abs(each.better - each.worse), -(each.better + each.worse), each.item))


def _flip(found: ArmItems, item: str) -> Flip:
    changes = [right.means[item] - left.means[item] for left, right in found.pairs]
    return Flip(
        item,
        found.control[0].scores.prompt(item),
        fmean(run.means[item] for run in found.control),
        fmean(run.means[item] for run in found.treatment),
        sum(change > 0 for change in changes),
        sum(change < 0 for change in changes),
    )
