"""Devices, and how the model is split over them."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.shared.overrides import Override
from rlx.backends.verl.overrides.base import Rendering
from rlx.backends.verl.trainers import config_of

MEGATRON_SPLITS = {
    "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size",
    "ep": "expert_model_parallel_size",
    "cp": "context_parallel_size",
}


def overrides(rendering: Rendering) -> Iterator[Override]:
    layout = rendering.recipe.layout
    yield from _engine(rendering)
    # Every version defaults to cuda; from 0.7 on verl corrects it at start, 0.6 does not.
    yield Override("trainer.device", layout.device, "layout.device")
    yield Override("trainer.nnodes", layout.nodes, "layout.nodes")
    yield Override("trainer.n_gpus_per_node", layout.devices_per_node, "layout.devices_per_node")
    if rendering.is_megatron:
        yield from _megatron_splits(rendering)
    elif layout.cp > 1:
        yield Override("actor_rollout_ref.actor.ulysses_sequence_parallel_size", layout.cp, "layout.cp")
        # verl asserts that it splits sequences without padding only; 0.6 pads by default.
        yield Override("actor_rollout_ref.model.use_remove_padding", True, "layout.cp")
    if layout.device != "cuda":
        yield from _without_compiler(rendering)


def config_name(rendering: Rendering) -> str | None:
    """The configuration to start from, where it is not the entry point's own."""
    if rendering.recipe.backend.config_name:
        return str(rendering.recipe.backend.config_name)
    # Later versions choose the engine by the group model_engine and call this file deprecated.
    if not rendering.is_megatron or "model_engine" in rendering.table:
        return None
    return config_of(rendering.recipe, rendering.version) or "ppo_megatron_trainer"


def _engine(rendering: Rendering) -> Iterator[Override]:
    engine = rendering.recipe.backend.engine
    if not rendering.is_megatron:
        yield Override("actor_rollout_ref.actor.strategy", engine, "backend.engine")
    elif config_name(rendering) is None:
        yield Override("model_engine", engine, "backend.engine")


def _megatron_splits(rendering: Rendering) -> Iterator[Override]:
    for field, key in MEGATRON_SPLITS.items():
        size = getattr(rendering.recipe.layout, field)
        yield from rendering.unless_idle(f"{rendering.actor_engine}.{key}", size, f"layout.{field}", 1)
        idle = 1 if rendering.has_reference else size
        yield from rendering.unless_idle(f"{rendering.ref_engine}.{key}", size, f"layout.{field}", idle)


def _without_compiler(rendering: Rendering) -> Iterator[Override]:
    """torch.compile is unstable on NPU (verl's own NPU scripts switch it off) and pays off nowhere on a CPU."""
    yield Override("actor_rollout_ref.actor.use_torch_compile", False, "layout.device")
    if not rendering.is_megatron:
        yield Override(f"{rendering.actor_engine}.use_torch_compile", False, "layout.device")
        yield Override(f"{rendering.ref_engine}.use_torch_compile", False, "layout.device")
