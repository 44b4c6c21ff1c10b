"""Set what runs on NPUs need and verl does not set by itself. The recipe's `overrides` and `env` go before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rlx.backends.shared.overrides import Override
from rlx.backends.verl.keys import release
from rlx.backends.verl.overrides.base import Rendering

SOURCE = "layout.device"
FLASH_ATTENTION = "override_transformer_config.use_flash_attn"
SGLANG_ATTENTION = "actor_rollout_ref.rollout.engine_kwargs.sglang.attention_backend"
# From here on verl sets flash attention itself (workers/engine/mindspeed/transformer_impl.py).
SETS_FLASH_ATTENTION = (0, 8)

_ENVIRONMENT = {
    # Without a range HCCL takes one fixed port on each NPU, which a second process of the device cannot have: actor and
    # rollout share theirs. With `auto` the system chooses, so that runs beside each other never ask for the same one.
    "HCCL_HOST_SOCKET_PORT_RANGE": "auto",
    "HCCL_NPU_SOCKET_PORT_RANGE": "auto",
    # Ranks that have loaded wait for those that still load or compile; CANN's 120 s are too few for a large model.
    "HCCL_CONNECT_TIMEOUT": "1800",
}


def overrides(rendering: Rendering) -> Iterator[Override]:
    if rendering.recipe.layout.device != "npu":
        return
    if needs_flash_attention(rendering):
        # MindSpeed asks the actor's settings alone; reference and critic run in its processes.
        yield rendering.added(f"{rendering.actor_engine}.{FLASH_ATTENTION}", True, SOURCE)
    if rendering.recipe.rollout.engine == "sglang":
        # verl asks for an attention of CUDA unless told.
        yield rendering.added(SGLANG_ATTENTION, "ascend", "rollout.engine")


def needs_flash_attention(rendering: Rendering) -> bool:
    """Tell whether Megatron's own attention, which takes no packed sequences, would be in use."""
    return rendering.is_megatron and release(rendering.version) < SETS_FLASH_ATTENTION


def environment(rendering: Rendering) -> Mapping[str, str]:
    """Name the variables that every process of the run sees unless host or recipe say otherwise."""
    return _ENVIRONMENT if rendering.recipe.layout.device == "npu" else {}
