"""pass@k: the share of items of which at least one of k answers is right.

Source: Chen et al. (2021), Evaluating large language models trained on code, arXiv:2107.03374, equation 1: of n answers
to an item, c right, 1 - C(n-c, k) / C(n, k) is the unbiased estimate, where 1 - (1 - c/n)^k is too low.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from statistics import fmean

from rlx.compare.arm_items import ArmItems, SeedItems

_RIGHT, _WRONG = 1.0, 0.0


def pass_at_k(answers: int, right: int, k: int) -> float:
    """The estimate for one item. Raises ValueError for more answers than there are."""
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
    return {k: (_values(found.control, found.items, k), _values(found.treatment, found.items, k)) for k in _ks(least)}


def _ks(answers: int) -> list[int]:
    powers = (2**exponent for exponent in range(answers.bit_length()))
    return sorted({*(k for k in powers if k <= answers), answers})


def _values(runs: Sequence[SeedItems], items: Sequence[str], k: int) -> tuple[float, ...]:
    return tuple(fmean(_of_item(run.scores.scores[item], k) for item in items) for run in runs)


def _of_item(scores: Sequence[float], k: int) -> float:
    return pass_at_k(len(scores), scores.count(_RIGHT), k)
