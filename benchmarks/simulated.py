"""Data as arms would give it, whose truth is known: what the calibration feeds to the tests.

Items have a difficulty of their own: the chance of a right answer follows a beta distribution with the given mean, and
`likeness` is the correlation that this gives to two answers to one item. Each row of an array is a replication.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
_CLASSES = 20


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
) -> Floats:
    """(replications, items): the mean score of the treatment's answers to each item, less that of the control's."""
    chance = _difficulties(rng, shape, accuracy, likeness)
    raised = chance + effect * (1 - chance) / (1 - accuracy)
    return (rng.binomial(samples, raised) - rng.binomial(samples, chance)) / samples


def right_answers(
    rng: Generator, shape: tuple[int, int], accuracy: float, likeness: float, arms: int
) -> NDArray[np.bool_]:
    """(arms, replications, items): whether each of several equally good checkpoints answers the same items right."""
    return rng.random((arms, *shape)) < _difficulties(rng, shape, accuracy, likeness)


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


def _difficulties(rng: Generator, shape: tuple[int, int], accuracy: float, likeness: float) -> Floats:
    weight = 1 / likeness - 1
    return rng.beta(accuracy * weight, (1 - accuracy) * weight, shape)
