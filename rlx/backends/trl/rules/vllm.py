"""TRL with vLLM in its process: what it would do by itself, and what its build for CPUs cannot."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.shared.vllm_cpu import HEAD_SIZES
from rlx.backends.trl.rules.facts import TRAINER, TrlFacts
from rlx.preflight.rules.number_text import one_of
from rlx.preflight.rules.rule_table import Flaw, error, note, rule


@rule(
    "RLX182",
    title="TRL: its own correction is switched off",
    why="TRL multiplies the loss by p(actor)/p(rollout) where vLLM generates, and leaves out sequences above 3: it "
    "would reweigh just the samples that noise has changed",
    fix="`algorithm.correction: {weights: token}` or `{weights: sequence}` in all arms, to train with one",
    source=f"{TRAINER}: vllm_importance_sampling_correction is true by default, mode sequence_mask",
)
def own_correction(facts: TrlFacts) -> Iterator[Flaw]:
    if _with_vllm(facts) and facts.recipe.algorithm.correction is None:
        message = "TRL's own correction of samples, on by default with vLLM, is switched off: the recipe asks for none"
        yield note(message, "algorithm.correction, in all arms", "algorithm.correction")


@rule(
    "RLX183",
    title="TRL: vLLM's attention on a CPU does not know the size of a head",
    why="the engine starts, and dies at the first generation: Unsupported CPU attention configuration",
    fix="a model with another head size, or `rollout.engine: transformers`",
    source="vLLM 0.27.1 v1/attention/backends/cpu_attn.py, get_supported_head_sizes",
)
def head_size(facts: TrlFacts) -> Iterator[Flaw]:
    shape = facts.architecture
    if not _with_vllm(facts) or facts.recipe.layout.device != "cpu" or shape is None:
        return
    if shape.head_dim not in HEAD_SIZES:
        message = f"{shape.name} has heads of {shape.head_dim}, and vLLM on a CPU knows {one_of(HEAD_SIZES)}"
        yield error(message, "another model, or rollout.engine transformers", "rollout.engine")


@rule(
    "RLX184",
    title="TRL: answers sampled from a part of the tokens, with vLLM",
    why="vLLM then tells probabilities among the tokens that are left, the actor those among all: the gap between them "
    "is large without any noise, and a correction would weigh by it",
    fix="`rollout: {top_p: 1.0, top_k: -1}`, or `rollout.engine: transformers`",
    source="trl 1.16.0, generation/vllm_generation.py: logprobs_mode is processed_logprobs",
)
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
