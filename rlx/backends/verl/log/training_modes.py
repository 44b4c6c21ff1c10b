"""Read from verl's configuration in which modes it trains.

Source: verl/trainer/config/ppo_trainer.yaml of 0.6.1 to 0.9.1, the configurations of its recipes for training one step
off policy and fully asynchronously (`async_training`), and recipe/dapo.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlx.evidence.modes import Mode, is_set, setting

_ROLLOUT = "actor_rollout_ref.rollout"
_LORA = (
    "actor_rollout_ref.model.lora_rank",
    "actor_rollout_ref.model.lora.rank",
    "actor_rollout_ref.model.lora_adapter_path",
)
_DYNAMIC = ("actor_rollout_ref.actor.use_dynamic_bsz",)
_PARTIAL = ("async_training.partial_rollout", f"{_ROLLOUT}.partial_rollout")
_QUANTISED = (f"{_ROLLOUT}.quantization", f"{_ROLLOUT}.quantization_config_file")
_EXPERTS = (
    f"{_ROLLOUT}.expert_parallel_size",
    "actor_rollout_ref.actor.megatron.expert_model_parallel_size",
    "actor_rollout_ref.actor.fsdp_config.expert_parallel_size",
)


def modes(configuration: Mapping[str, Any]) -> Iterator[Mode]:
    """Yield the modes that are on. Nothing for a configuration that is not known."""
    if setting(configuration, "trainer.v1.trainer_mode") in ("colocate_async", "separate_async"):
        # Only its second trainer reads this key; where the first one runs it changes nothing, and costs some checks.
        yield Mode.ASYNCHRONOUS
    elif isinstance(own := configuration.get("async_training"), Mapping):
        yield (
            Mode.ASYNCHRONOUS
            if own.get("staleness_threshold") or "trigger_parameter_sync_step" in own
            else Mode.OFF_POLICY
        )
    if any(is_set(configuration, key) for key in _PARTIAL):
        yield Mode.PARTIAL_ROLLOUTS
    if any(is_set(configuration, key) for key in _DYNAMIC):
        yield Mode.DYNAMIC_BATCHES
    if is_set(configuration, "algorithm.filter_groups.enable"):
        yield Mode.FILTERED_GROUPS
    if is_set(configuration, f"{_ROLLOUT}.multi_turn.enable"):
        yield Mode.MULTI_TURN
    if any(is_set(configuration, key) for key in _LORA):
        yield Mode.LORA
    if any(is_set(configuration, key) for key in _QUANTISED):
        yield Mode.QUANTISED_ROLLOUT
    if any(_above_one(setting(configuration, key)) for key in _EXPERTS):
        yield Mode.MOE


def _above_one(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 1
