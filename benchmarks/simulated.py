"""Data as arms would give it, whose truth is known: what the calibration feeds to the tests.

Items have a difficulty of their own: the chance of a right answer follows a beta distribution with the given mean, and
`likeness` is the correlation that this gives to two answers to one item. Each row of an array is a replication.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
_CLASSES = 20
_DIFFICULTIES = 4000


def both_answers(
    rng: Generator, shape: tuple[int, int], accuracy: float, likeness: float, effect: float = 0.0
) -> Counts:
    """(replications, 4): items that both, only the treatment, only the control, and neither answered right.

    `shape`: (replications, items). The treatment is better by `effect`.
    """
    replications, items = shape
    apart = accuracy * (1 - accuracy) * (1 - likeness)
    chances = [accuracy - apart, apart + effect / 2, apart - effect / 2, 1 - accuracy - apart]
    return rng.multinomial(items, chances, size=replications)


def item_differences(
    rng: Generator, shape: tuple[int, int], accuracy: float, likeness: float, samples: int, effect: float = 0.0
) -> tuple[Floats, Counts]:
    """The differences of an item's mean scores that there can be, treatment less control, and how many items have each:
    of shape (differences,) and (replications, differences). `shape`: (replications, items).

    Items are drawn anew in each replication, so that these counts are multinomial: no item need be drawn.
    """
    from scipy.stats import binom

    chance = _difficulties(accuracy, likeness)
    raised = chance + effect * (1 - chance) / (1 - accuracy)
    right = np.arange(samples + 1)[:, None]
    both = binom.pmf(right, samples, chance) @ binom.pmf(right, samples, raised).T / len(chance)
    apart = right.T - right
    kinds = np.arange(-samples, samples + 1)
    chances = np.array([both[apart == kind].sum() for kind in kinds])
    return kinds / samples, rng.multinomial(shape[1], chances / chances.sum(), size=shape[0])


def right_answers(
    rng: Generator, shape: tuple[int, int], accuracy: float, likeness: float, arms: int
) -> tuple[NDArray[np.bool_], Counts]:
    """Which of several equally good checkpoints answer an item right, in all ways that there are, and how many items
    have each: of shape (ways, arms) and (replications, ways)."""
    ways = np.array(list(product((False, True), repeat=arms)))
    chance = _difficulties(accuracy, likeness)
    right = ways.sum(axis=1)[:, None]
    chances = (chance**right * (1 - chance) ** (arms - right)).mean(axis=1)
    return ways, rng.multinomial(shape[1], chances / chances.sum(), size=shape[0])


def seed_values(rng: Generator, shape: tuple[int, int, int], items: int, seed_sd: float) -> Floats:
    """The share of right answers of each run, in `shape`: (arms, replications, runs); all runs answer the same items.

    Accuracy is 0.7 on average. A seed shifts the log-odds of all its items so that accuracy has the standard deviation
    `seed_sd`. The items' difficulties are the quantiles of a beta distribution, in classes of equal size.
    """
    from scipy.special import expit, logit
    from scipy.stats import beta

    chance = np.clip(beta.ppf((np.arange(_CLASSES) + 0.5) / _CLASSES, 0.7, 0.3), 1e-6, 1 - 1e-6)
    shift = rng.normal(0, seed_sd / np.mean(chance * (1 - chance)), shape)
    sizes = np.diff(np.linspace(0, items, _CLASSES + 1).round().astype(int))
    right = np.zeros(shape)
    for odds, size in zip(logit(chance), sizes, strict=True):
        right += rng.binomial(size, expit(odds + shift))
    return right / items


def _difficulties(accuracy: float, likeness: float) -> Floats:
    """The chance of a right answer to items of all difficulties, equally many of each."""
    from scipy.stats import beta

    weight = 1 / likeness - 1
    quantiles = (np.arange(_DIFFICULTIES) + 0.5) / _DIFFICULTIES
    return np.asarray(beta.ppf(quantiles, accuracy * weight, (1 - accuracy) * weight))
