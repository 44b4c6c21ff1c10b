"""Batches, steps, the optimiser and the seed."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.shared.overrides import Override
from rlx.backends.verl.key_names import CRITIC_SEED_KEYS, SEED_KEYS
from rlx.backends.verl.overrides.base import Rendering


def overrides(rendering: Rendering) -> Iterator[Override]:
    train = rendering.recipe.train
    micro = "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"
    yield Override("data.train_batch_size", train.batch_size, "train.batch_size")
    yield Override("actor_rollout_ref.actor.ppo_mini_batch_size", train.mini_batch_size, "train.mini_batch_size")
    yield Override(micro, train.micro_batch_size, "train.micro_batch_size")
    yield Override("actor_rollout_ref.actor.optim.lr", train.lr, "train.lr")
    yield from _length(rendering)
    yield Override("trainer.save_freq", train.save_every or -1, "train.save_every")
    yield from _seeds(rendering)


def steps_per_epoch(rendering: Rendering) -> int | None:
    """Count whole batches in the training data; verl drops the rest. None: the recipe does not say how many rows."""
    rows = rendering.recipe.data.train_rows
    return None if rows is None else rows // rendering.recipe.train.batch_size


def _length(rendering: Rendering) -> Iterator[Override]:
    train = rendering.recipe.train
    if train.steps is None:
        yield Override("trainer.total_epochs", train.epochs, "train.epochs")
        return
    yield Override("trainer.total_epochs", _enough_epochs(rendering, train.steps), "train.steps")
    yield Override("trainer.total_training_steps", train.steps, "train.steps")


def _enough_epochs(rendering: Rendering, steps: int) -> int:
    """Epochs after which `steps` are surely done: a run whose epochs end first stops without its last validation.

    An epoch has at least one step, however many prompts turn out too long. A fork's own noise, however, spreads its
    schedule over all the epochs it is given, so it must not get more than it needs.
    """
    aqn, in_epoch = rendering.recipe.aqn, steps_per_epoch(rendering)
    return -(-steps // in_epoch) if aqn and aqn.provider == "builtin" and in_epoch else steps


def _seeds(rendering: Rendering) -> Iterator[Override]:
    keys = SEED_KEYS + (CRITIC_SEED_KEYS if rendering.recipe.algorithm.kind == "ppo" else ())
    return (Override(key, rendering.recipe.seed, "seed") for key in keys if key in rendering.table)
