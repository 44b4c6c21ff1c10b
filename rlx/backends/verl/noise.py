"""Noise as verl gets it: what rlx brings, or what a fork schedules by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.backends.shared.noise import payload_schedule, scheduled
from rlx.plan import NoiseSchedule, stage_sigmas

if TYPE_CHECKING:
    from rlx.recipe.schema import Aqn, Recipe


def noise_schedule(
    recipe: Recipe, total_steps: int | None, by_data: int | None, epoch_steps: int | None = None
) -> NoiseSchedule | None:
    """Sigma of each of `total_steps` steps; None for an arm without noise, or of unknown length.

    `by_data` is the number of steps until the epochs end: the fork's own noise takes that for the length of the run.
    `epoch_steps` are the steps of one epoch. Raises UsageError where the noise needs them and nobody knows.
    """
    aqn = recipe.aqn
    if aqn is None or total_steps is None:
        return None
    if aqn.provider == "payload":
        return payload_schedule(recipe, total_steps, epoch_steps)
    if not by_data:
        return None
    return scheduled(recipe, aqn, tuple(fork_sigma(aqn, step, by_data) for step in range(1, total_steps + 1)))


def fork_sigma(aqn: Aqn, step: int, schedule_steps: int) -> float:
    """Sigma that the fork puts on the weights of the rollout which its log reports as `step`, counted from 1.

    Source: zhshgmail/verl cfb21db5, `get_sigma_by_step` in verl/utils/noise_injection.py. The trainer hands over its
    step after the update, for the next weight sync: the rollout of step s gets s - 1. Floats as there, with their
    borders.
    """
    by_stage = stage_sigmas(aqn.sigma_start, aqn.sigma_end, aqn.stages)
    stage = int(min(step - 1, schedule_steps) // (schedule_steps / aqn.stages))
    return by_stage[min(stage, aqn.stages - 1)]
