"""The rollout: `generate_config`. Its sampling is written in full, since the defaults suit no training."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.mindspeed_rl.sections.base import Rendering, plain
from rlx.backends.shared.overrides import Override

SECTION = "generate_config"
SAMPLING = f"{SECTION}.sampling_config"
# Training and rollout take turns on the same NPUs.
_OFFLOADED = {f"offload_train_{what}": True for what in ("optimizer", "grad", "param")}
_MOST_SEQUENCES = 1024
_BATCHED_TOKENS = 8192


def overrides(rendering: Rendering) -> Iterator[Override]:
    recipe, rollout = rendering.recipe, rendering.recipe.rollout
    yield from plain(SECTION, "backend.kind", _OFFLOADED)
    yield Override(f"{SECTION}.infer_tensor_parallel_size", rollout.tp, "rollout.tp")
    yield Override(f"{SECTION}.infer_pipeline_parallel_size", 1, "backend.kind")
    yield Override(f"{SECTION}.infer_expert_parallel_size", rollout.ep, "rollout.ep")
    yield Override(f"{SECTION}.enable_expert_parallel", rollout.ep > 1, "rollout.ep")
    yield Override(f"{SECTION}.max_num_seqs", _sequences(rendering), "rollout.n")
    yield Override(f"{SECTION}.max_model_len", rendering.longest, "data.max_response_tokens")
    batched = max(_BATCHED_TOKENS, rendering.longest)
    yield Override(f"{SECTION}.max_num_batched_tokens", batched, "data.max_response_tokens")
    yield Override(f"{SECTION}.dtype", recipe.model.dtype, "model.dtype")
    yield Override(f"{SECTION}.gpu_memory_utilization", rollout.memory_fraction, "rollout.memory_fraction")
    yield Override(f"{SECTION}.enforce_eager", rollout.enforce_eager, "rollout.enforce_eager")
    yield from _sampling(rendering)


def _sequences(rendering: Rendering) -> int:
    """The default is one at a time: as many as a replica gets, up to what the shipped examples have."""
    recipe = rendering.recipe
    replicas = max(1, rendering.npus // recipe.rollout.tp)
    return min(_MOST_SEQUENCES, -(-recipe.train.batch_size * recipe.rollout.n // replicas))


def _sampling(rendering: Rendering) -> Iterator[Override]:
    rollout = rendering.recipe.rollout
    yield Override(f"{SAMPLING}.logprobs", 1, "backend.kind")
    yield Override(f"{SAMPLING}.max_tokens", rendering.recipe.data.max_response_tokens, "data.max_response_tokens")
    yield Override(f"{SAMPLING}.top_p", rollout.top_p, "rollout.top_p")
    yield Override(f"{SAMPLING}.top_k", rollout.top_k, "rollout.top_k")
    yield Override(f"{SAMPLING}.min_p", 0.0, "backend.kind")
    yield Override(f"{SAMPLING}.temperature", rollout.temperature, "rollout.temperature")
    yield Override(f"{SAMPLING}.detokenize", False, "backend.kind")
    # Each sample of a prompt is a request of its own: one seed would make them all the same.
    yield Override(f"{SAMPLING}.seed", None, "backend.kind")
