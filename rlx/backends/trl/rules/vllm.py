"""TRL with vLLM in its process: what it would do by itself, and what its build for CPUs cannot."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.shared.vllm_cpu import HEAD_SIZES
from rlx.backends.trl.rules.facts import TrlFacts
from rlx.planning.rules.number_text import one_of
from rlx.planning.rules.rule_table import Flaw, error, note, rule


@rule("RLX182")
def own_correction(facts: TrlFacts) -> Iterator[Flaw]:
    if _with_vllm(facts) and facts.recipe.algorithm.correction is None:
        message = "TRL's own correction of samples, on by default with vLLM, is switched off: the recipe asks for none"
        yield note(message, "algorithm.correction, in all arms", "algorithm.correction")


@rule("RLX183")
def head_size(facts: TrlFacts) -> Iterator[Flaw]:
    shape = facts.architecture
    if not _with_vllm(facts) or facts.recipe.layout.device != "cpu" or shape is None:
        return
    if shape.head_dim not in HEAD_SIZES:
        message = f"{shape.name} has heads of {shape.head_dim}, and vLLM on a CPU knows {one_of(HEAD_SIZES)}"
        yield error(message, "another model, or rollout.engine transformers", "rollout.engine")


@rule("RLX184")
def part_of_the_tokens(facts: TrlFacts) -> Iterator[Flaw]:
    said = facts.recipe.rollout
    if not _with_vllm(facts):
        return
    if said.top_p < 1:
        yield error(f"rollout.top_p {said.top_p:g} with vLLM: no gap can be told", "rollout.top_p 1", "rollout.top_p")
    if said.top_k > 0:
        yield error(f"rollout.top_k {said.top_k} with vLLM: no gap can be told", "rollout.top_k -1", "rollout.top_k")


def _with_vllm(facts: TrlFacts) -> bool:
    return facts.recipe.rollout.engine == "vllm"
