"""The critic of PPO: the same model, engine and split as the actor. Other algorithms have none."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.shared.overrides import Override, path_override
from rlx.backends.verl.overrides.base import Rendering
from rlx.backends.verl.overrides.layout import MEGATRON_SPLITS


def overrides(rendering: Rendering) -> Iterator[Override]:
    recipe = rendering.recipe
    if recipe.algorithm.kind != "ppo":
        return
    yield path_override("critic.model.path", recipe.model.path, "model.path")
    yield Override("critic.ppo_micro_batch_size_per_gpu", recipe.train.micro_batch_size, "train.micro_batch_size")
    if rendering.is_megatron:
        for field, key in MEGATRON_SPLITS.items():
            yield Override(f"critic.megatron.{key}", getattr(recipe.layout, field), f"layout.{field}")
    else:
        yield Override("critic.strategy", recipe.backend.engine, "backend.engine")
        engine = rendering.table.first("critic.fsdp.dtype", "critic.model.fsdp_config.dtype")
        yield Override(engine, recipe.model.dtype, "model.dtype")
