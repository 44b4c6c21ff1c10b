"""Keep the settings that NPUs need and rlx renders: an override can take them away."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.verl.overrides.ascend import FLASH_ATTENTION, SETS_FLASH_ATTENTION, SGLANG_ATTENTION
from rlx.backends.verl.rules.facts import ACTOR, VerlFacts
from rlx.planning.rules.rule_table import Flaw, error, rule


@rule("RLX461")
def flash_attention(facts: VerlFacts) -> Iterator[Flaw]:
    key, npu = f"{ACTOR}.megatron.{FLASH_ATTENTION}", facts.recipe.layout.device == "npu"
    given = facts.setting(key)
    is_off = given is not True if facts.release < SETS_FLASH_ATTENTION else given is False
    if npu and facts.is_megatron and is_off:
        yield error(f"{facts.named(key)}: attention would take no packed sequences", f"{key}: true", facts.source(key))


@rule("RLX462")
def sglang_attention(facts: VerlFacts) -> Iterator[Flaw]:
    recipe = facts.recipe
    if recipe.layout.device != "npu" or recipe.rollout.engine != "sglang":
        return
    if facts.setting(SGLANG_ATTENTION) != "ascend":
        message = f"{facts.named(SGLANG_ATTENTION)}: SGLang on NPUs needs ascend"
        yield error(message, f"{SGLANG_ATTENTION}: ascend", facts.source(SGLANG_ATTENTION))
