"""The batch of a recipe in small: prompts divided by one factor, devices by another, samples a prompt as they are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from rlx.backends.verl.rules.batch import BATCH, LOG_MICRO, MICRO, MINI, SAMPLES
from rlx.backends.verl.rules.facts import VerlFacts
from rlx.errors import UsageError
from rlx.planning.rules.number_text import divisors

# Two workers shard the model and talk over gloo, as many would.
_DEVICES = 2


@dataclass(frozen=True, slots=True)
class Batch:
    """`batch` and `mini` in prompts, `micro` and `log_prob` in samples a device and pass, `n` samples a prompt."""

    batch: int
    mini: int
    micro: int
    log_prob: int
    n: int
    devices: int


def batch_of(facts: VerlFacts) -> Batch:
    """Read the batch that the back-end really gets. Raises UsageError for one that nobody can count."""
    numbers = [facts.count(key) for key in (BATCH, MINI, SAMPLES)]
    if None in numbers:
        raise UsageError("the batch of this recipe is not known beforehand", "remove what overrides its sizes")
    batch, mini, n = (number or 1 for number in numbers)
    if mini > batch:
        mini = facts.recipe.train.mini_batch_size  # A fork that counts samples here.
    micro = facts.count(MICRO) or facts.recipe.train.micro_batch_size
    log_prob = facts.count(LOG_MICRO) or facts.recipe.rollout.log_prob_micro_batch_size
    return Batch(batch, mini, micro, log_prob, n, facts.data_parallel or facts.devices or 1)


def scaled(whole: Batch) -> Iterator[tuple[int, Batch]]:
    """Factor and batch, the smallest batch first; those on two devices before those on one.

    As many updates a step as before: a factor divides the batch and the mini batch. An update keeps two prompts where
    it has as many, since prompts are told apart only then.
    """
    factors = [factor for factor in divisors(math.gcd(whole.batch, whole.mini)) if whole.mini >= 2 * factor] or [1]
    for devices in sorted({min(_DEVICES, whole.devices), 1}, reverse=True):
        for factor in reversed(factors):
            yield factor, _divided(whole, factor, devices)


def _divided(whole: Batch, factor: int, devices: int) -> Batch:
    batch, mini = whole.batch // factor, whole.mini // factor

    def pieces(size: int, prompts: int, scaled_prompts: int) -> int:
        """Keep as many passes over a device's samples as before, where that divides; at most one sample each."""
        share, now = prompts * whole.n / whole.devices, scaled_prompts * whole.n // devices
        wanted = max(1, min(now, int(size * now / share)))
        return max(part for part in divisors(max(1, now)) if part <= wanted)

    micro = pieces(whole.micro, whole.mini, mini)
    return Batch(batch, mini, micro, pieces(whole.log_prob, whole.batch, batch), whole.n, devices)
