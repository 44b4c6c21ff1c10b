"""Read from MindSpeed-RL's settings what a device must hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.preflight.memory.inputs import Settings, SettingsReader
from rlx.preflight.memory.job import Job, Offload

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

_SECTIONS = ("actor_config", "megatron_training")


def job(recipe: Recipe, settings: Settings, written: Job) -> Job:
    """One worker is trainer, reference and rollout in turn (IntegratedWorker): the reference always leaves."""
    read = SettingsReader(settings)
    parts = (read.flag(f"generate_config.offload_train_{part}", False) for part in ("param", "grad", "optimizer"))
    return replace(
        written,
        recompute=any(read.text(f"{section}.recompute_granularity") == "full" for section in _SECTIONS),
        offload=Offload(*parts),
        reference_offload=True,
    )
