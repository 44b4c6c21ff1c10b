"""Scores by item of two arms, on the items that every run answered: descriptive, no test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import comb
from statistics import fmean

from rlx.compare.comparison_values import Comparison, Contrast
from rlx.compare.outputs import NO_ITEMS, Items, belongs
from rlx.evidence import ItemScores

NAMES = ("hard: up to a third right", "middling", "easy: more than two thirds right")
_BORDERS = (-1.0, 1 / 3, 2 / 3, 1.0)
_RIGHT, _WRONG = 1.0, 0.0


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
    """Return the items of a contrast; None where a run kept none or is no result, or nothing may be compared.

    `data_sources`: among how many the validation is split; outputs that do not name theirs are then of all of them.
    """
    arms = (comparison.control, next(arm for arm in comparison.treatments if arm.label == contrast.treatment))
    if contrast.step is None or contrast.errors or any(arm.is_excluded for arm in arms):
        return None
    kept = items.get(contrast.step, NO_ITEMS)
    scores = [kept.get(run.run_id) for arm in arms for run in arm.runs]
    found = [each for each in scores if each is not None and belongs(each, data_sources)]
    common = sorted(set.intersection(*(set(each.scores) for each in found))) if len(found) == len(scores) else []
    if not common:
        return None
    of_arms = []
    for arm in arms:
        own = [(run, kept[run.run_id]) for run in arm.runs]
        means = [scores.means for _, scores in own]
        of_arms.append(
            tuple(
                SeedItems(run.run_id, run.seed, scores, {item: mean[item] for item in common})
                for (run, scores), mean in zip(own, means, strict=True)
            )
        )
    return ArmItems(contrast.step, tuple(common), *of_arms)


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
    """Return the items that turned in any pair of runs, those first that turned most often in one direction.

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


@dataclass(frozen=True, slots=True)
class DifficultyGroup:
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


def by_difficulty(found: ArmItems) -> list[DifficultyGroup]:
    """Return the groups that have items; none with one run of the control, or scores that are no shares from 0 to 1.

    How hard an item is, is estimated on other runs than those that the effect is of. Items that a run of the control
    got wrong by bad luck are answered better by any other run: groups made by the same answers as the effect show a
    gain on hard items and a loss on easy ones, of a treatment that does nothing (regression to the mean: Galton 1886,
    J. Anthropol. Inst. 15:246-263).
    """
    runs = (*found.control, *found.treatment)
    if len(found.control) < 2 or not all(0 <= score <= 1 for run in runs for score in run.means.values()):
        return []
    parts = [(name, list(_parts(found, bounds))) for name, bounds in zip(NAMES, pairwise(_BORDERS), strict=True)]
    groups = []
    for name, own in parts:
        if own:
            items, control, treatment = (fmean(column) for column in zip(*own, strict=True))
            differences = tuple(right - left for _, left, right in own)
            groups.append(DifficultyGroup(name, items, control, treatment, differences))
    return groups


def _parts(found: ArmItems, bounds: tuple[float, float]) -> Iterator[tuple[int, float, float]]:
    """Yield item count, control score and treatment score, with each control run in turn as the control."""
    for left_out in found.control:
        others = [run for run in found.control if run is not left_out]
        items = [item for item in found.items if bounds[0] < fmean(run.means[item] for run in others) <= bounds[1]]
        if items:
            yield len(items), _score([left_out], items), _score(found.treatment, items)


def _score(runs: Sequence[SeedItems], items: Sequence[str]) -> float:
    return fmean(run.means[item] for run in runs for item in items)


def pass_at_k(answers: int, right: int, k: int) -> float:
    """Return the unbiased estimate for one item. Raises ValueError for more answers than there are.

    Source: Chen et al. (2021), Evaluating large language models trained on code, arXiv:2107.03374, equation 1: of n
    answers to an item, c right, it is 1 - C(n-c, k) / C(n, k), where 1 - (1 - c/n)^k is too low.
    """
    if not 0 < k <= answers or not 0 <= right <= answers:
        raise ValueError(f"pass@{k} of {answers} answers, {right} of them right")
    return 1 - comb(answers - right, k) / comb(answers, k)


def pass_curves(found: ArmItems) -> dict[int, tuple[tuple[float, ...], tuple[float, ...]]]:
    """k -> the value of each run of control and treatment, mean over the items, for k = 1, 2, 4 … and all answers.

    Empty where an item has one answer, or an answer that is neither right (1) nor wrong (0).
    """
    runs = (*found.control, *found.treatment)
    scores = [run.scores.scores[item] for run in runs for item in found.items]
    least = min(map(len, scores))
    if least < 2 or any(score not in (_RIGHT, _WRONG) for each in scores for score in each):
        return {}
    powers = {2**exponent for exponent in range(least.bit_length())}
    ks = sorted({*(k for k in powers if k <= least), least})
    return {k: (_values(found.control, found.items, k), _values(found.treatment, found.items, k)) for k in ks}


def _values(runs: Sequence[SeedItems], items: Sequence[str], k: int) -> tuple[float, ...]:
    every = ([run.scores.scores[item] for item in items] for run in runs)
    return tuple(fmean(pass_at_k(len(each), each.count(_RIGHT), k) for each in scores) for scores in every)
