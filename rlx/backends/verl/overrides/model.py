"""The model: where it lies, its precision, and what of it is trained."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.shared.overrides import Override, path_override
from rlx.backends.verl.overrides.base import Rendering

_SHORT_DTYPE = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def overrides(rendering: Rendering) -> Iterator[Override]:
    yield path_override("actor_rollout_ref.model.path", rendering.recipe.model.path, "model.path")
    yield from _precision(rendering)
    if rendering.recipe.model.lora is not None:
        yield from _lora(rendering)


def _precision(rendering: Rendering) -> Iterator[Override]:
    dtype = rendering.recipe.model.dtype
    yield Override("actor_rollout_ref.rollout.dtype", dtype, "model.dtype")
    for engine in (rendering.actor_engine, rendering.ref_engine):
        # What every engine of verl computes in unless told.
        yield from rendering.unless_idle(f"{engine}.dtype", dtype, "model.dtype", "bfloat16")
        if dtype != "bfloat16" and not rendering.is_megatron:
            # From 0.8 on the FSDP engine computes in bfloat16 whatever `dtype` says, unless this is set.
            mixed = {"param_dtype": _SHORT_DTYPE[dtype], "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
            yield rendering.added(f"{engine}.mixed_precision", mixed, "model.dtype")


def _lora(rendering: Rendering) -> Iterator[Override]:
    """FSDP reads flat keys in every version, Megatron a section of its own that 0.6 does not have."""
    lora = rendering.recipe.model.lora
    assert lora is not None
    names = ("lora.rank", "lora.alpha", "lora.target_modules")
    if not rendering.is_megatron:
        names = ("lora_rank", "lora_alpha", "target_modules")
    rank, alpha, targets = (f"actor_rollout_ref.model.{name}" for name in names)
    yield Override(rank, lora.rank, "model.lora.rank")
    # verl declares alpha a whole number.
    yield Override(alpha, int(lora.alpha) if lora.alpha.is_integer() else lora.alpha, "model.lora.alpha")
    if lora.targets != "all-linear":
        # The default of either engine: every linear layer, in its own naming.
        yield Override(targets, lora.targets, "model.lora.targets")
