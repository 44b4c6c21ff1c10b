"""MindSpeed-RL: combinations of settings that its validator refuses, minutes after the start."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.mindspeed_rl.rules.facts import (
    ACTOR,
    CP,
    GENERATE,
    MAX_TOKENS,
    PP,
    RL,
    SAMPLES,
    SHARED,
    MindSpeedRlFacts,
    NpuSizes,
)
from rlx.planning.rules.rule_table import RuleFinding, error, rule

LENGTH, MOST = f"{ACTOR}.seq_length", f"{GENERATE}.max_model_len"
# Refused beside the integrated worker, which is all roles at once.
_OTHER_ROLES = (f"{RL}.reference_resource", f"{RL}.reward_resource")
_OTHER_SECTIONS = ("ref_config", "reward_config")
_DISPATCHED = ("actor_rollout", "actor_logprob", "ref", "adv", "actor_update")


@rule("RLX280")
def lengths(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    most, data = facts.count(MOST), facts.recipe.data
    wanted = {LENGTH: facts.count(LENGTH), "prompt and response": data.max_prompt_tokens + data.max_response_tokens}
    for name, length in wanted.items():
        if most and length and most < length:
            yield error(f"{facts.named(MOST)} is less than {name} {length}", f"{MOST} {length}", facts.source(MOST))


@rule("RLX281")
def roles(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    written = facts.settings.written
    if not facts.is_true(f"{RL}.use_integrated_worker"):
        if facts.setting(key := f"{RL}.integrated_mode_config") is not None:
            yield error(f"{key} without the integrated worker", "remove it", facts.source(key))
        return
    others = [key for key in _OTHER_ROLES if any(name.startswith(key) for name in written)]
    others += [section for section in _OTHER_SECTIONS if any(key.startswith(f"{section}.") for key in written)]
    for key in others:
        yield error(f"overrides.{key}: the integrated worker is that role, too", "remove it", f"overrides.{key}")


@rule("RLX282")
def padding(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    algorithm, sizes = facts.setting(f"{ACTOR}.context_parallel_algo"), NpuSizes(facts)
    if (sizes[CP] or 1) > 1 and algorithm not in (None, "ulysses_cp_algo", "megatron_cp_algo"):
        key = f"{ACTOR}.context_parallel_algo"
        yield error(f"{facts.named(key)}: it has two", "ulysses_cp_algo or megatron_cp_algo", facts.source(key))
    if not facts.is_true(f"{RL}.use_remove_padding"):
        return
    needed = ["reset_attention_mask"] + (["no_pad_to_seq_lengths"] if (sizes[PP] or 1) > 1 else [])
    for name in needed:
        if not facts.is_true(f"{ACTOR}.{name}"):
            yield error(f"use_remove_padding without {name}", f"megatron_training.{name}: true")
    if facts.is_true(f"{RL}.is_multimodal"):
        yield error("use_remove_padding with is_multimodal", "one of them")


@rule("RLX283")
def dispatched(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    sizes = NpuSizes(facts)
    mini = (sizes[f"{RL}.mini_batch_size"] or 1) * (sizes[SAMPLES] or 1)
    for name in _DISPATCHED:
        key = f"{RL}.{name}_dispatch_size"
        size, samples = sizes[key], sizes.samples
        if not (size and samples):
            continue
        parts = {"actor_rollout": sizes.replicas, "adv": 1}.get(name, sizes.groups)
        if samples % size or (parts and size > samples // parts):
            share = samples // parts if parts else samples
            message = f"{facts.named(key)} does not divide {samples} samples, or is over the {share} of a group"
            yield error(message, "remove it", facts.source(key))
        elif name == "actor_update" and sizes.groups and size < mini / sizes.groups:
            yield error(f"{facts.named(key)} is below a group's part of a mini batch", "remove it", facts.source(key))


@rule("RLX284")
def backbone(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    if not facts.is_true(f"{RL}.share_backbone"):
        return
    if not any(facts.setting(f"{section}.lora_target_modules") for section in (SHARED, ACTOR)):
        yield error("rl_config.share_backbone without LoRA", "give model.lora, or remove it", f"{RL}.share_backbone")
    if facts.setting(f"{ACTOR}.stage") == "ray_dapo":
        yield error("rl_config.share_backbone with DAPO", "remove it", f"{RL}.share_backbone")


@rule("RLX285")
def dapo(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    tokens, buffer = facts.count(MAX_TOKENS), facts.whole(f"{RL}.overlong_buffer")
    if facts.is_true(f"{RL}.overlong_buffer_enable") and tokens and buffer is not None:
        if buffer >= tokens:
            key = f"{RL}.overlong_buffer"
            yield error(f"{facts.named(key)} is not below {tokens} tokens", "a smaller one", facts.source(key))
        if facts.whole(key := f"{RL}.rollout_max_tokens") != tokens:
            yield error(f"{facts.named(key)}, but the rollout has {tokens}", "make them equal", facts.source(key))
    low, high = (facts.setting(f"{RL}.clip_ratio_{side}") for side in ("low", "high"))
    if facts.is_true(f"{RL}.clip_higher_enable") and isinstance(low, float) and isinstance(high, float) and low > high:
        key = f"{RL}.clip_ratio_low"
        yield error(f"{facts.named(key)} is above clip_ratio_high {high:g}", "low below high", facts.source(key))
    yield from _filtered(facts)


def _filtered(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    if not facts.is_true(f"{RL}.filter_groups_enable"):
        return
    metric, verifiers = facts.setting(f"{RL}.filter_groups_metric"), facts.setting(f"{RL}.verifier_function")
    if isinstance(verifiers, (list, tuple)) and metric not in verifiers:
        fix = f"one of {', '.join(map(str, verifiers))}"
        yield error(f"filter_groups_metric {metric} is none of the verifiers", fix, f"{RL}.filter_groups_metric")
    kept, groups = facts.count(f"{RL}.filter_groups_train_batch_size"), NpuSizes(facts).groups
    if kept and groups and kept % groups:
        key = f"{RL}.filter_groups_train_batch_size"
        yield error(f"{facts.named(key)} does not divide over {groups} data-parallel groups", "a multiple", key)


@rule("RLX286")
def turns(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    if (facts.count(f"{RL}.partial_rollout_max_split") or 1) > 1 and facts.is_true(f"{RL}.guarantee_order"):
        yield error("partial_rollout_max_split with guarantee_order", "guarantee_order false", f"{RL}.guarantee_order")
    if not facts.is_true(f"{RL}.multi_turn_enable"):
        return
    total, tokens = facts.whole(key := f"{RL}.max_total_response_length"), facts.count(MAX_TOKENS)
    if total is not None and tokens and total < tokens:
        message = f"{facts.named(key)} is below the {tokens} tokens of one turn"
        yield error(message, f"{key} {tokens}", facts.source(key))
    if not facts.is_true(f"{RL}.async_engine"):
        yield error("multi_turn_enable without async_engine", "rl_config.async_engine: true", f"{RL}.async_engine")


@rule("RLX287")
def refused(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    framework, pipeline = f"{ACTOR}.ai_framework", f"{GENERATE}.infer_pipeline_parallel_size"
    if facts.setting(framework) not in (None, "mindspore"):
        yield error(f"{facts.named(framework)}: only mindspore, or none", "remove it", facts.source(framework))
    if (facts.count(pipeline) or 1) > 1:
        yield error(f"{facts.named(pipeline)}: the rollout has no pipeline", "remove it", facts.source(pipeline))
    functions, weights = (facts.setting(f"{RL}.verifier_{what}") for what in ("function", "weight"))
    if isinstance(functions, (list, tuple)) and isinstance(weights, (list, tuple)) and len(functions) != len(weights):
        yield error(f"{len(functions)} verifiers and {len(weights)} weights", "one weight a verifier", "reward.weights")
    for key in (f"{ACTOR}.bf16", f"{GENERATE}.dtype"):
        if facts.source(key).startswith("overrides.") and facts.setting(key) not in (True, "bfloat16"):
            yield error(f"{facts.named(key)}: it takes bfloat16 only", "remove it", facts.source(key))
