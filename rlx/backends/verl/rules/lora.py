"""Low-rank adapters: which engine can train them, and which rollout can take them."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.rules.facts import ACTOR, MODEL, ROLLOUT, VerlFacts
from rlx.planning.rules.rule_table import Flaw, error, rule, warning

MBRIDGE, VANILLA = f"{ACTOR}.megatron.use_mbridge", f"{ACTOR}.megatron.vanilla_mbridge"
MOST_RANKS = 512


@rule("RLX250")
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


@rule("RLX251")
def bridge_and_mindspeed(facts: VerlFacts) -> Iterator[Flaw]:
    bridged = facts.is_true(MBRIDGE) and facts.setting(VANILLA) is False
    if facts.is_megatron and facts.recipe.layout.device == "npu" and facts.release == (0, 7) and bridged:
        message = f"Megatron-Bridge with verl {facts.settings.version} on NPUs, whose MindSpeed is 0.12.1"
        yield warning(message, "check Megatron-Bridge: 0.2.0rc6 does not import there; verl 0.8 has core_r0.16.0")


@rule("RLX252")
def lora_rank(facts: VerlFacts) -> Iterator[Flaw]:
    rank, merged = facts.lora_rank, facts.is_true(f"{MODEL}.lora.merge")
    if rank and rank > MOST_RANKS and facts.setting(f"{ROLLOUT}.name") == "vllm" and not merged:
        yield error(f"model.lora.rank {rank} is above {MOST_RANKS}", "rank 256, 320 or 512", "model.lora.rank")


@rule("RLX253")
def load_format(facts: VerlFacts) -> Iterator[Flaw]:
    key = f"{ROLLOUT}.load_format"
    is_dummy = key in facts.settings.written and str(facts.setting(key)).startswith("dummy")
    if facts.lora_rank and is_dummy and not facts.is_true(f"{MODEL}.lora.merge"):
        yield error(f"{facts.named(key)} with model.lora", f"{key}: safetensors", facts.source(key))
