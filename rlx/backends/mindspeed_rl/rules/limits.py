"""MindSpeed-RL: what it takes without a word and does not do, and what rlx cannot launch on it."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.mindspeed_rl.rules.facts import GENERATE, MindSpeedRlFacts
from rlx.planning.rules.rule_table import Flaw, error, rule, warning

_SEED = f"{GENERATE}.sampling_config.seed"
_TARGETS = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")


@rule("RLX160")
def sampling_seed(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    n = facts.recipe.rollout.n
    if facts.setting(_SEED) is not None and n > 1:
        message = f"{facts.named(_SEED)}: the {n} answers to a prompt will be alike"
        yield warning(message, "remove it", facts.source(_SEED))


@rule("RLX161")
def kl(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    algorithm = facts.recipe.algorithm
    if algorithm.kl is None:
        return
    if algorithm.kind == "dapo":
        yield error("algorithm.kl: DAPO has no reference model", "algorithm.kl null", "algorithm.kl")
    elif algorithm.kl.place == "reward" and algorithm.kind != "ppo":
        message = f"algorithm.kl.place reward: MindSpeed-RL does not count it with {algorithm.kind}"
        yield error(message, "algorithm.kl.place loss", "algorithm.kl.place")


@rule("RLX162")
def engine(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    name = facts.recipe.backend.engine
    if name != "megatron":
        message = f"backend.engine {name}: MindSpeed-RL has Megatron only"
        yield error(message, "backend.engine megatron", "backend.engine")


@rule("RLX163")
def targets(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    lora = facts.recipe.model.lora
    if lora and lora.targets != "all-linear" and (others := [one for one in lora.targets if one not in _TARGETS]):
        fix = f"of {', '.join(_TARGETS)}"
        yield error(f"model.lora.targets {', '.join(others)}: no names of Megatron's", fix, "model.lora.targets")


@rule("RLX665")
def correction(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    if facts.recipe.algorithm.correction is not None:
        message = "algorithm.correction: MindSpeed-RL knows no probabilities of the rollout to correct by"
        yield error(message, "algorithm.correction null", "algorithm.correction")


@rule("RLX167")
def seeds_of_requests(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    if facts.recipe.rollout.deterministic:
        message = "rollout.deterministic: MindSpeed-RL gives no request a seed of its own"
        yield error(message, "rollout.deterministic false", "rollout.deterministic")
