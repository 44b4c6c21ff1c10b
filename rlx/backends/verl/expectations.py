"""Compute what the log must show from the settings that verl will really get.

Source: `fit` of verl 0.6.1 to 0.9.1. Training steps are counted from 1; step 0 is the validation before training.
"""

from __future__ import annotations

from rlx.backends.verl.key_names import correction_of
from rlx.backends.verl.noise import noise_schedule, watch
from rlx.backends.verl.overrides import Override, Rendering
from rlx.backends.verl.overrides.rollout import LOG_PROBS_KEY
from rlx.backends.verl.run_length import Length, Settings, batches_a_step, count, run_length, whole
from rlx.backends.verl.weights import weight_promise
from rlx.evidence.log_grammar import Role
from rlx.model import Expectations


def settings_of(overrides: tuple[Override, ...]) -> Settings:
    """Key → value as verl gets it; of a map, also each key below."""
    return {key: value for override in overrides if override.prefix != "~" for key, value in override.leaves()}


def expectations(rendering: Rendering, settings: Settings) -> Expectations:
    """Raises UsageError where an entry of `overrides` replaces a number by something rlx cannot count with."""
    length = run_length(rendering, settings)
    totals = rendering.recipe.backend.totals
    every = whole(settings, "trainer.test_freq")
    before_train = settings["trainer.val_before_train"] is True
    correction = correction_of(lambda key: settings.get(key, rendering.table.defaults.get(key)))
    # With bypass verl computes no probabilities of the actor before the update, so there is no gap to log.
    bypass = correction is not None and correction.bypass
    return Expectations(
        total_steps=length.total,
        validation_steps=totals.validations if totals else _validation_steps(length, every, before_train),
        last_step_validated=(
            totals.steps in totals.validations if totals else every > 0 and not length.data_ends_first
        ),
        validation_items=rendering.recipe.data.val_rows,
        validation_samples=count(settings, "actor_rollout_ref.rollout.val_kwargs.n"),
        metric=rendering.recipe.eval.metric,
        noise=noise_schedule(rendering, settings, length.total, length.by_data, length.epoch),
        reports_probability_gap=settings.get(LOG_PROBS_KEY) is True and not bypass,
        witness=Role.POLICY_KL.value if bypass else "",
        correction=correction,
        watch=watch(rendering, settings, length.total),
        batches=batches_a_step(rendering, settings),
        weights=weight_promise(rendering, settings),
    )


def _validation_steps(length: Length, every: int, before_train: bool) -> tuple[int, ...]:
    steps = {0} if before_train else set()
    if every > 0 and length.last is not None:
        steps.update(range(every, length.last + 1, every))
        if not length.data_ends_first:
            steps.add(length.last)
    return tuple(sorted(steps))
