"""Derive what the log must show from TRL's effective arguments, the noise included.

Steps are counted from 1; step 0 is the validation before training. The last step is validated whatever its number:
payload/rlx_trl_records.py asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlx.backends.shared.noise import (
    NOISE,
    payload_schedule,
    payload_settings,
    processes_of,
    watch_expectation,
    watch_settings,
)
from rlx.backends.shared.payload_files import is_recorded, modules
from rlx.backends.shared.rendering import EffectiveSettings
from rlx.backends.trl.arguments import Rendering, correction_of, epoch_steps
from rlx.errors import UsageError
from rlx.model import Expectations, Link, NoiseExpectation, NoiseSchedule, PlannedFile, WeightExpectation
from rlx.model.run_dir import PAYLOAD_DIR

if TYPE_CHECKING:
    from rlx.model import NoiseProcess

_LINKS = (Link.ASKED, Link.REACHED, Link.DRAWN, Link.FELT, Link.LIFTED, Link.TRAINED_ON)
_WATCH_LINKS = (Link.ASKED, Link.REACHED, Link.FELT, Link.LIFTED)


def expectations(rendering: Rendering, settings: EffectiveSettings) -> Expectations:
    """Derive what the log must show. Raises UsageError where an override replaces a number by something else."""
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


def _weights(rendering: Rendering, settings: EffectiveSettings) -> WeightExpectation | None:
    """One process trains and generates. With a generation for several steps, by `overrides`, it syncs less often."""
    if not is_recorded(rendering.recipe.env):
        return None
    passes, every = settings.get("gradient_accumulation_steps"), settings.get("steps_per_generation")
    return WeightExpectation(1, 1, syncs_each_step=passes == every and settings.get("num_iterations") == 1)


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


def schedule(rendering: Rendering, total: int) -> NoiseSchedule | None:
    """Schedule the noise; None for an arm without. Raises UsageError where an epoch's rows are needed and not known."""
    recipe = rendering.recipe
    return payload_schedule(recipe, total, epoch_steps(recipe), _LINKS, _processes(), probed=True)


def watch(rendering: Rendering, total: int) -> NoiseExpectation | None:
    """Promise what an arm without noise shows of that; None where no arm of the recipe has any."""
    recipe, watched = rendering.recipe, rendering.resolved.watched
    if watched is None or recipe.aqn is not None:
        return None
    return watch_expectation(recipe, watched, total, _WATCH_LINKS, _processes(), probed=True)


def _processes() -> tuple[NoiseProcess, ...]:
    """One process trains and generates: more were not run."""
    return processes_of(1, 1, 1)


def noise_files(rendering: Rendering, total: int) -> Iterator[PlannedFile]:
    """Nothing where no arm of the recipe has noise."""
    recipe, watched = rendering.recipe, rendering.resolved.watched
    if recipe.aqn is not None and recipe.aqn.provider == "payload":
        settings = payload_settings(recipe, recipe.aqn, total, epoch_steps(recipe))
    elif recipe.aqn is None and watched is not None:
        settings = watch_settings(recipe, watched, total)
    else:
        return
    yield PlannedFile(f"{PAYLOAD_DIR}/aqn.json", settings)
    yield from modules(NOISE)
