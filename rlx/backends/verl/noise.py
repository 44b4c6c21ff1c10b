"""Noise as each provider schedules it, and the settings that travel with the run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rlx.errors import UsageError
from rlx.plan import NoiseSchedule, sigmas_by_step, stage_sigmas

if TYPE_CHECKING:
    from rlx.recipe.schema import Aqn, Recipe

NOISE = "rlx_aqn"  # the payload's modules begin with it


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
        sigmas = sigmas_by_step(
            aqn.sigma_start, aqn.sigma_end, aqn.stages, total_steps, aqn.schedule, stage_span(aqn, epoch_steps)
        )
    elif by_data:
        sigmas = tuple(fork_sigma(aqn, step, by_data) for step in range(1, total_steps + 1))
    else:
        return None
    return NoiseSchedule(sigmas, aqn.stages, aqn.layer_types, aqn.provider, recipe.eval.noise)


def fork_sigma(aqn: Aqn, step: int, schedule_steps: int) -> float:
    """Sigma that the fork puts on the weights of the rollout which its log reports as `step`, counted from 1.

    Source: zhshgmail/verl cfb21db5, `get_sigma_by_step` in verl/utils/noise_injection.py. The trainer hands over its
    step after the update, for the next weight sync: the rollout of step s gets s - 1. Floats as there, with their
    borders.
    """
    by_stage = stage_sigmas(aqn.sigma_start, aqn.sigma_end, aqn.stages)
    stage = int(min(step - 1, schedule_steps) // (schedule_steps / aqn.stages))
    return by_stage[min(stage, aqn.stages - 1)]


def stage_span(aqn: Aqn, epoch_steps: int | None) -> int | None:
    """The steps in which the stages run through once; None: the whole run."""
    if not aqn.per_epoch:
        return None
    if not epoch_steps:
        raise UsageError("aqn.per_epoch: the number of steps of an epoch is not known", "give data.train_rows")
    return epoch_steps


def payload_settings(recipe: Recipe, total_steps: int, epoch_steps: int | None) -> str:
    """The content of payload/aqn.json, which rlx_aqn_settings.py reads."""
    aqn = recipe.aqn
    assert aqn is not None
    settings = {
        "sigma_start": aqn.sigma_start,
        "sigma_end": aqn.sigma_end,
        "stages": aqn.stages,
        "total_steps": total_steps,
        "schedule": aqn.schedule,
        "epoch_steps": stage_span(aqn, epoch_steps),
        "layer_types": aqn.layer_types,
        "targets": aqn.targets,
        "exclude": aqn.exclude,
        "multipliers": aqn.multipliers,
        "seed": recipe.seed,
        "validation_noise": recipe.eval.noise,
    }
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
