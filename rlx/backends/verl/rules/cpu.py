"""Refuse what cannot train on a CPU: an older verl, other engines, models that vLLM has no kernel for."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.shared.vllm_cpu import HEAD_SIZES
from rlx.backends.verl.overrides.cpu import NEEDED_KEY
from rlx.backends.verl.rules.facts import VerlFacts
from rlx.planning.rules.number_text import one_of
from rlx.planning.rules.rule_table import Flaw, error, rule


@rule("RLX401")
def old_verl(facts: VerlFacts) -> Iterator[Flaw]:
    if facts.recipe.layout.device == "cpu" and NEEDED_KEY not in facts.settings.defaults:
        message = f"layout.device cpu: verl {facts.settings.version} cannot be steered from outside"
        yield error(message, "use verl 0.9", "layout.device")


@rule("RLX405")
def engine_without_cpu(facts: VerlFacts) -> Iterator[Flaw]:
    engine = facts.recipe.rollout.engine
    if facts.recipe.layout.device == "cpu" and engine not in ("cpu", "vllm"):
        yield error(f"rollout.engine {engine} with layout.device cpu", "rollout.engine cpu or vllm", "rollout.engine")


@rule("RLX406")
def head_size(facts: VerlFacts) -> Iterator[Flaw]:
    shape, recipe = facts.architecture, facts.recipe
    if recipe.layout.device != "cpu" or recipe.rollout.engine != "vllm" or shape is None:
        return
    if shape.head_dim not in HEAD_SIZES:
        message = f"{shape.name} has heads of {shape.head_dim}, and vLLM on a CPU knows {one_of(HEAD_SIZES)}"
        yield error(message, "another model, or rollout.engine cpu", "rollout.engine")
