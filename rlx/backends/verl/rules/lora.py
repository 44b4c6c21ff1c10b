"""Low-rank adapters: which engine can train them, and which rollout can take them."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import ACTOR, MODEL, ROLLOUT, VerlFacts
from rlx.preflight.rules.rule_table import Flaw, error, rule, warning

MBRIDGE, VANILLA = f"{ACTOR}.megatron.use_mbridge", f"{ACTOR}.megatron.vanilla_mbridge"
MOST_RANKS = 512


@rule(
    "RLX250",
    title="LoRA on Megatron without Megatron-Bridge",
    why="verl asserts it when the model is built: LoRA/PEFT only supported via Megatron-Bridge",
    fix="`use_mbridge: true` and `vanilla_mbridge: false` in `overrides`",
    source="verl 0.7.1 to 0.9.1 workers/config/megatron_peft.py",
)
def bridge(facts: VerlFacts) -> Iterator[Flaw]:
    if not facts.is_megatron or facts.lora_rank is None:
        return
    if facts.release < (0, 7):
        message = f"model.lora with backend.engine megatron: verl {facts.settings.version} has none"
        yield error(message, "backend.version 0.7 or later, or engine fsdp", "model.lora.rank")
        return
    wrong = [key for key, wanted in ((MBRIDGE, True), (VANILLA, False)) if facts.setting(key) is not wanted]
    if wrong:
        settings = ", ".join(f"{key}: {'true' if key == MBRIDGE else 'false'}" for key in wrong)
        named = " and ".join(facts.named(key) for key in wrong)
        yield error(f"model.lora on Megatron needs Megatron-Bridge, and there is {named}", f"overrides: {{{settings}}}")


@rule(
    "RLX251",
    title="Megatron-Bridge beside the MindSpeed of verl 0.7",
    why="Megatron-Bridge 0.2.0rc6 does not import with MindSpeed 0.12.1 (AttributeError)",
    fix="verl 0.8 with its core_r0.16.0, or train without the bridge",
    source="reported for this pair, text not captured; verl's version table",
)
def bridge_and_mindspeed(facts: VerlFacts) -> Iterator[Flaw]:
    bridged = facts.is_true(MBRIDGE) and facts.setting(VANILLA) is False
    if facts.is_megatron and facts.recipe.layout.device == "npu" and facts.release == (0, 7) and bridged:
        message = f"Megatron-Bridge with verl {facts.settings.version} on NPUs, whose MindSpeed is 0.12.1"
        yield warning(message, "check Megatron-Bridge: 0.2.0rc6 does not import there; verl 0.8 has core_r0.16.0")


@rule(
    "RLX252",
    title="a LoRA rank that vLLM cannot load",
    why="verl or vLLM refuses ranks above 512 at the start",
    fix="a rank of at most 512, or merge the adapter",
    source="verl 0.9.1 get_vllm_max_lora_rank: 1, 8, 16, 32, 64, 128, 256, 320, 512; 0.6.1 validate_config",
)
def lora_rank(facts: VerlFacts) -> Iterator[Flaw]:
    rank, merged = facts.lora_rank, facts.is_true(f"{MODEL}.lora.merge")
    if rank and rank > MOST_RANKS and facts.setting(f"{ROLLOUT}.name") == "vllm" and not merged:
        yield error(f"model.lora.rank {rank} is above {MOST_RANKS}", "rank 256, 320 or 512", "model.lora.rank")


@rule(
    "RLX253",
    title="adapters over random weights",
    why="with load_format dummy the rollout's base weights are random: only adapters are synced",
    fix="leave `rollout.load_format` at safetensors with LoRA",
    source="verl LoRA guide: load_format=safetensors is required",
)
def load_format(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{ROLLOUT}.load_format"
    is_dummy = key in facts.settings.written and str(facts.setting(key)).startswith("dummy")
    if facts.lora_rank and is_dummy and not facts.is_true(f"{MODEL}.lora.merge"):
        yield error(f"{facts.named(key)} with model.lora", f"{key}: safetensors", facts.source(key))
