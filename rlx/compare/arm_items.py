"""The scores by item of all runs of two arms, on the items that each of them answered: for reading, no test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlx.compare.compared_arms import ComparedArm
from rlx.compare.comparison_values import Comparison, Contrast
from rlx.compare.matching import NO_ITEMS, Items, belongs
from rlx.evidence import ItemScores


@dataclass(frozen=True, slots=True)
class SeedItems:
    """The scores of one run. `means` has the mean score of each common item."""

    run_id: str
    seed: int
    scores: ItemScores
    means: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ArmItems:
    """The runs of two arms at one step, and the items that all of them answered, sorted."""

    step: int
    items: tuple[str, ...]
    control: tuple[SeedItems, ...]
    treatment: tuple[SeedItems, ...]

    @property
    def pairs(self) -> list[tuple[SeedItems, SeedItems]]:
        """Runs of one seed side by side; where no seed is in both arms, in their order."""
        same = [(left, right) for left in self.control for right in self.treatment if left.seed == right.seed]
        return same or list(zip(self.control, self.treatment, strict=False))


def arm_items(
    comparison: Comparison, contrast: Contrast, items: Mapping[int, Items], data_sources: int
) -> ArmItems | None:
    """The items of a contrast; None where a run kept none or is no result, or nothing may be compared.

    `data_sources`: among how many the validation is split; outputs that do not name theirs are then of all of them.
    """
    arms = (comparison.control, next(arm for arm in comparison.treatments if arm.label == contrast.treatment))
    if contrast.step is None or contrast.errors or any(arm.struck for arm in arms):
        return None
    kept = items.get(contrast.step, NO_ITEMS)
    scores = [kept.get(run.run_id) for arm in arms for run in arm.runs]
    found = [each for each in scores if each is not None and belongs(each, data_sources)]
    common = sorted(set.intersection(*(set(each.scores) for each in found))) if len(found) == len(scores) else []
    if not common:
        return None
    control, treatment = (_of_arm(arm, kept, common) for arm in arms)
    return ArmItems(contrast.step, tuple(common), control, treatment)


def _of_arm(arm: ComparedArm, kept: Items, common: list[str]) -> tuple[SeedItems, ...]:
    return tuple(_of_run(run.run_id, run.seed, kept[run.run_id], common) for run in arm.runs)


def _of_run(run_id: str, seed: int, scores: ItemScores, common: list[str]) -> SeedItems:
    means = scores.means
    return SeedItems(run_id, seed, scores, {item: means[item] for item in common})
