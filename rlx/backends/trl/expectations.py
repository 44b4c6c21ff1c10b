"""Compute what the log must show from the arguments that TRL will really get.

Steps are counted from 1; step 0 is the validation before training. The last step is validated whatever its number:
payload/rlx_trl_records.py asks for it.
"""

from __future__ import annotations

from rlx.backends.shared.effective import EffectiveSettings
from rlx.backends.shared.weights import is_recorded
from rlx.backends.trl.arguments import Rendering
from rlx.backends.trl.correction import correction_of
from rlx.backends.trl.noise import schedule, watch
from rlx.errors import UsageError
from rlx.model import Expectations, WeightPromise


def expectations(rendering: Rendering, settings: EffectiveSettings) -> Expectations:
    """Raises UsageError where an entry of `overrides` replaces a number by something rlx cannot count with."""
    recipe = rendering.recipe
    total = _count(settings, "max_steps")
    every = recipe.eval.every
    return Expectations(
        total_steps=total,
        validation_steps=_validation_steps(total, every, recipe.eval.before_train),
        last_step_validated=every is not None,
        validation_items=recipe.data.val_rows,
        validation_samples=recipe.eval.n,
        metric=recipe.eval.metric,
        noise=schedule(rendering, total),
        reports_probability_gap=True,
        correction=correction_of(settings),
        watch=watch(rendering, total),
        weights=_weights(rendering, settings),
    )


def _weights(rendering: Rendering, settings: EffectiveSettings) -> WeightPromise | None:
    """One process trains and generates. With a generation for several steps, by `overrides`, it syncs less often."""
    if not is_recorded(rendering.recipe.env):
        return None
    passes, every = settings.get("gradient_accumulation_steps"), settings.get("steps_per_generation")
    return WeightPromise(1, 1, syncs_each_step=passes == every and settings.get("num_iterations") == 1)


def _count(settings: EffectiveSettings, key: str) -> int:
    value = settings.get(key)
    if type(value) is not int or value < 1:
        from rlx.recipe.schema_errors import describe

        raise UsageError(
            f"overrides.{key}: rlx must know this number beforehand, found {describe(value)}",
            "remove it, and write train.steps",
        )
    return value


def _validation_steps(total: int, every: int | None, before_train: bool) -> tuple[int, ...]:
    steps = {0} if before_train else set()
    if every is not None:
        steps.update({*range(every, total + 1, every), total})
    return tuple(sorted(steps))
