"""The generation of samples, and the log-probability passes over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rlx.backends.shared.overrides import Override
from rlx.backends.verl.overrides.base import Rendering, with_module

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

LOG_PROBS_KEY = "actor_rollout_ref.rollout.calculate_log_probs"

SEEDS = "rlx_verl_seeds"  # the payload's module
_SEED_VARIABLE = "RLX_ROLLOUT_SEED"

_FIELDS = {
    "engine": "name",
    "n": "n",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "tp": "tensor_model_parallel_size",
    "ep": "expert_parallel_size",
    "memory_fraction": "gpu_memory_utilization",
    "enforce_eager": "enforce_eager",
    "log_prob_micro_batch_size": "log_prob_micro_batch_size_per_gpu",
}


def overrides(rendering: Rendering) -> Iterator[Override]:
    rollout = rendering.recipe.rollout
    for field, key in _FIELDS.items():
        value, idle = getattr(rollout, field), 1 if field == "ep" else None
        yield from rendering.unless_idle(f"actor_rollout_ref.rollout.{key}", value, f"rollout.{field}", idle)
    if rollout.ep > rollout.tp:
        # verl asserts ep == tp * data_parallel_size.
        yield Override("actor_rollout_ref.rollout.data_parallel_size", rollout.ep // rollout.tp, "rollout.ep")
    if rendering.recipe.algorithm.kl is not None:
        micro = "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu"
        yield Override(micro, rollout.log_prob_micro_batch_size, "rollout.log_prob_micro_batch_size")
    if LOG_PROBS_KEY in rendering.table:
        # The gap between rollout and actor probabilities is the second witness of applied noise.
        yield Override(LOG_PROBS_KEY, True, "rollout.engine")


def gives_seeds(recipe: Recipe) -> bool:
    """Tell whether each request gets a seed of its own. The CPU rollout of rlx depends on no order as it is."""
    return recipe.rollout.deterministic and recipe.rollout.engine == "vllm"


def environment(recipe: Recipe, others: Mapping[str, str]) -> dict[str, str]:
    """Name what the processes that send requests must see beside `others`."""
    return {**with_module(others, SEEDS), _SEED_VARIABLE: str(recipe.seed)} if gives_seeds(recipe) else {}
