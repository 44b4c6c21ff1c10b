"""Read from MindSpeed-RL's settings what a device must hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rlx.planning.memory.job import (
    BackendSettings,
    Offload,
    Recompute,
    SettingsReader,
    TrainingSetup,
    megatron_recompute,
)

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

_SECTIONS = ("actor_config", "megatron_training")


def job(recipe: Recipe, settings: BackendSettings, written: TrainingSetup) -> TrainingSetup:
    """One worker is trainer, reference and rollout in turn (IntegratedWorker): the reference always leaves."""
    read = SettingsReader(settings)
    parts = (read.flag(f"generate_config.offload_train_{part}", False) for part in ("param", "grad", "optimizer"))
    return replace(
        written,
        recompute=_recompute(read, written),
        # Megatron's own arguments reduce gradients in 32 bits unless this one is set.
        gradient_bytes=2 if any(read.flag(f"{part}.grad_reduce_in_bf16", False) for part in _SECTIONS) else 4,
        offload=Offload(*parts),
        reference_offload=True,
    )


def _recompute(read: SettingsReader, written: TrainingSetup) -> Recompute:
    """Read the first section that recomputes anything."""
    found = (megatron_recompute(read, section, written.shape.layers) for section in _SECTIONS)
    return next((each for each in found if each.full or each.modules), Recompute(full=False))
