"""Read from verl's configuration in which modes it trains.

Sources: verl/trainer/config/ppo_trainer.yaml and its groups, of 0.6.1 to 0.9.1; the configurations for training one
step off policy (recipe/ or verl/experimental/one_step_off_policy: the section `rollout` at the top) and fully
asynchronously (`async_training`); recipe/dapo; verl/workers/rollout for how its engines quantise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rlx.evidence.modes import Mode, is_set, setting

_ACTOR, _MODEL, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.model", "actor_rollout_ref.rollout"
_ENGINES = tuple(f"{_ROLLOUT}.engine_kwargs.{name}" for name in ("vllm", "sglang", "trtllm"))
_ON = {
    Mode.PARTIAL_ROLLOUTS: ("async_training.partial_rollout", f"{_ROLLOUT}.partial_rollout"),
    Mode.DYNAMIC_BATCHES: (f"{_ACTOR}.use_dynamic_bsz",),
    Mode.FILTERED_GROUPS: ("algorithm.filter_groups.enable", "data.filter_accuracy"),
    Mode.MULTI_TURN: (
        f"{_ROLLOUT}.multi_turn.enable",
        f"{_ROLLOUT}.multi_turn.tool_config_path",
        f"{_ROLLOUT}.multi_turn.function_tool_path",
        f"{_ROLLOUT}.multi_turn.interaction_config_path",
        f"{_ROLLOUT}.agent.agent_loop_config_path",
    ),
    Mode.LORA: (
        f"{_MODEL}.lora_rank",
        f"{_MODEL}.lora.rank",
        f"{_MODEL}.lora_adapter_path",
        f"{_MODEL}.lora.adapter_path",
    ),
    Mode.QUANTISED_ROLLOUT: (
        f"{_ROLLOUT}.quantization",
        f"{_ROLLOUT}.quantization_config_file",
        f"{_ACTOR}.fsdp_config.qat.enable",
        f"{_ACTOR}.megatron.qat.enable",
        *(f"{engine}.quantization" for engine in _ENGINES),
    ),
    Mode.MOE: (f"{_ROLLOUT}.enable_rollout_routing_replay", f"{_ROLLOUT}.moe_load_balance_metrics_interval"),
}
"""Settings of which one that is on suffices."""
_CACHES = tuple(f"{engine}.kv_cache_dtype" for engine in _ENGINES)
_EXPERTS = (
    f"{_ROLLOUT}.expert_parallel_size",
    f"{_ACTOR}.fsdp_config.expert_parallel_size",
    f"{_ACTOR}.megatron.expert_model_parallel_size",
    f"{_ACTOR}.torchtitan.expert_parallel_size",
    f"{_ACTOR}.veomni.expert_parallel_size",
)
_NAMES_OF_EXPERTS = re.compile(
    r"\d+B-A\d|moe|mixtral|deepseek[-_]?(v[2-9]|r1(?!-distill))|moonlight|gpt-oss|kimi-k2|llama-4", re.IGNORECASE
)
"""No setting says what a model is made of, and most are run without parallel experts: `Qwen3-30B-A3B`."""


def modes(configuration: Mapping[str, Any]) -> Iterator[Mode]:
    """Yield the modes that are on. Nothing for a configuration that is not known."""
    yield from _off_policy(configuration)
    found = {mode for mode, keys in _ON.items() if any(is_set(configuration, key) for key in keys)}
    if setting(configuration, f"{_ROLLOUT}.agent.default_agent_loop") not in (None, "single_turn_agent"):
        found.add(Mode.MULTI_TURN)
    if any(setting(configuration, key) not in (None, "auto") for key in _CACHES):
        found.add(Mode.QUANTISED_ROLLOUT)
    if _has_experts(configuration):
        found.add(Mode.MOE)
    if setting(configuration, "trainer.resume_mode") == "resume_path":
        found.add(Mode.RESUMED)
    yield from (mode for mode in Mode if mode in found)


def _off_policy(configuration: Mapping[str, Any]) -> Iterable[Mode]:
    if setting(configuration, "trainer.v1.trainer_mode") in ("colocate_async", "separate_async"):
        # Only its second trainer reads this key; where the first one runs it changes nothing, and costs some checks.
        return (Mode.ASYNCHRONOUS,)
    if isinstance(configuration.get("async_training"), Mapping):
        return (Mode.ASYNCHRONOUS,)
    # Devices of its own for the rollout: the plain trainer has no such section.
    return (Mode.OFF_POLICY,) if isinstance(configuration.get("rollout"), Mapping) else ()


def _has_experts(configuration: Mapping[str, Any]) -> bool:
    path, replay = setting(configuration, f"{_MODEL}.path"), f"{_ACTOR}.{{}}.router_replay.mode"
    return (
        any(_above_one(setting(configuration, key)) for key in _EXPERTS)
        or any(setting(configuration, replay.format(each)) in ("R2", "R3") for each in ("megatron", "veomni"))
        or (isinstance(path, str) and _NAMES_OF_EXPERTS.search(path.rstrip("/").rpartition("/")[2]) is not None)
    )


def _above_one(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 1
