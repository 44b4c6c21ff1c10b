"""Keep the settings that NPUs need and rlx renders: an override can take them away."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.overrides.ascend import FLASH_ATTENTION, SETS_FLASH_ATTENTION, SGLANG_ATTENTION
from rlx.backends.verl.rules.facts import ACTOR, VerlFacts
from rlx.preflight.rules.rule_table import Flaw, error, rule


@rule(
    "RLX461",
    title="Megatron on NPUs without flash attention",
    why="MindSpeed leaves Megatron's own attention in place, which asserts: Packed sequence is not supported by "
    "DotProductAttention",
    fix="remove the override: rlx renders `use_flash_attn`",
    source="verl 0.6.1 and 0.7.1 megatron_workers.py: repatch(override_transformer_config); from 0.8 on "
    "workers/engine/mindspeed/transformer_impl.py sets it unless told",
)
def flash_attention(facts: VerlFacts) -> Iterator[Flaw]:
    key, npu = f"{ACTOR}.megatron.{FLASH_ATTENTION}", facts.recipe.layout.device == "npu"
    given = facts.setting(key)
    is_off = given is not True if facts.release < SETS_FLASH_ATTENTION else given is False
    if npu and facts.is_megatron and is_off:
        yield error(f"{facts.named(key)}: attention would take no packed sequences", f"{key}: true", facts.source(key))


@rule(
    "RLX462",
    title="SGLang on NPUs with an attention of another device",
    why="verl asks for fa3 or flashinfer unless told, and neither runs on an NPU",
    fix="remove the override: rlx renders `attention_backend: ascend`",
    source="verl 0.6.1 to 0.9.1 async_sglang_server.py; its NPU scripts with SGLang set ascend",
)
def sglang_attention(facts: VerlFacts) -> Iterator[Flaw]:
    recipe = facts.recipe
    if recipe.layout.device != "npu" or recipe.rollout.engine != "sglang":
        return
    if facts.setting(SGLANG_ATTENTION) != "ascend":
        message = f"{facts.named(SGLANG_ATTENTION)}: SGLang on NPUs needs ascend"
        yield error(message, f"{SGLANG_ATTENTION}: ascend", facts.source(SGLANG_ATTENTION))
