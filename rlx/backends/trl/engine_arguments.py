"""Arguments of vLLM that TRL 1.16.0 has no argument for; the payload's program puts them in.

Source: trl 1.16.0, generation/vllm_generation.py, _init_vllm: the arguments that it gives to vllm.LLM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlx.backends.shared.vllm_cpu import KV_CACHE_BYTES

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

# vLLM's own 128 on a CPU are more than a prompt of a small task has, and its prefix cache keeps whole blocks only.
_BLOCK_TOKENS = 32


def engine_arguments(recipe: Recipe) -> dict[str, Any]:
    """The dtype on any device: vLLM makes bfloat16 of float32 checkpoints, and the actor would stay float32."""
    arguments: dict[str, Any] = {"dtype": recipe.model.dtype, "enforce_eager": recipe.rollout.enforce_eager}
    if recipe.layout.device == "cpu":
        arguments |= {"kv_cache_memory_bytes": KV_CACHE_BYTES, "block_size": _BLOCK_TOKENS}
    return arguments
