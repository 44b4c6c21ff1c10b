"""Compute what the log must show from the settings that verl will really get.

Source: `fit` and `_create_dataloader` of verl 0.6.1 to 0.9.1. Training steps are counted from 1; step 0 is the
validation before training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlx.backends.shared.assembly import MOST_STEPS
from rlx.backends.verl.correction import correction_of
from rlx.backends.verl.noise import noise_schedule, watch
from rlx.backends.verl.overrides import Override, Rendering
from rlx.backends.verl.overrides.rollout import LOG_PROBS_KEY
from rlx.errors import UsageError
from rlx.evidence.log_grammar import Role
from rlx.plan import Expectations

Settings = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Length:
    """Steps of the run. `total` is what verl announces, `by_data` where its epochs end; None: not known beforehand.

    `epoch` are the steps of one epoch.

    The data can end first: then verl stops without taking any step for its last one.
    """

    total: int | None
    by_data: int | None
    epoch: int | None = None

    @property
    def data_ends_first(self) -> bool:
        return self.total is not None and self.by_data is not None and self.by_data < self.total

    @property
    def last(self) -> int | None:
        return self.by_data if self.data_ends_first else self.total


def settings_of(overrides: tuple[Override, ...]) -> Settings:
    """Key → value as verl gets it; of a map, also each key below."""
    return {key: value for override in overrides if override.prefix != "~" for key, value in override.leaves()}


def run_length(rendering: Rendering, settings: Settings) -> Length:
    """verl drops the last, incomplete batch of an epoch. Raises UsageError for a setting that is no count of steps."""
    rows, most = rendering.recipe.data.train_rows, settings.get("data.train_max_samples")
    if rows is not None and type(most) is int and most > 0:
        rows = min(rows, most)
    by_data = epoch = None
    if rows is not None:
        epoch = rows // _count(settings, "data.train_batch_size")
        by_data = epoch * _count(settings, "trainer.total_epochs")
    steps = settings.get("trainer.total_training_steps")
    total = by_data if steps is None else _count(settings, "trainer.total_training_steps")
    if total is not None and total > MOST_STEPS:
        raise UsageError(
            f"the run would have {total:,} steps, and a plan lists each up to {MOST_STEPS:,}",
            "lower train.steps or train.epochs",
        )
    return Length(total, by_data, epoch)


def expectations(rendering: Rendering, settings: Settings) -> Expectations:
    """Raises UsageError where an entry of `overrides` replaces a number by something rlx cannot count with."""
    length = run_length(rendering, settings)
    every = _whole(settings, "trainer.test_freq")
    before_train = settings["trainer.val_before_train"] is True
    correction = correction_of(lambda key: settings.get(key, rendering.table.defaults.get(key)))
    # With bypass verl computes no probabilities of the actor before the update, so there is no gap to log.
    bypass = correction is not None and correction.bypass
    return Expectations(
        total_steps=length.total,
        validation_steps=_validation_steps(length, every, before_train),
        last_step_validated=every > 0 and not length.data_ends_first,
        validation_items=rendering.recipe.data.val_rows,
        validation_samples=_count(settings, "actor_rollout_ref.rollout.val_kwargs.n"),
        metric=rendering.recipe.eval.metric,
        noise=noise_schedule(rendering, settings, length.total, length.by_data, length.epoch),
        reports_probability_gap=settings.get(LOG_PROBS_KEY) is True and not bypass,
        witness=Role.POLICY_KL.value if bypass else "",
        correction=correction,
        watch=watch(rendering, settings, length.total),
    )


def _count(settings: Settings, key: str) -> int:
    value = _whole(settings, key)
    if value < 1:
        raise UsageError(f"overrides.{key}: must be at least 1, found {value}", "remove it, or write a larger number")
    return value


def _whole(settings: Settings, key: str) -> int:
    value = settings.get(key)
    if type(value) is not int:
        from rlx.recipe.wording import describe

        raise UsageError(
            f"overrides.{key}: rlx must know this number beforehand, found {describe(value)}", "write a whole number"
        )
    return value


def _validation_steps(length: Length, every: int, before_train: bool) -> tuple[int, ...]:
    steps = {0} if before_train else set()
    if every > 0 and length.last is not None:
        steps.update(range(every, length.last + 1, every))
        if not length.data_ends_first:
            steps.add(length.last)
    return tuple(sorted(steps))
