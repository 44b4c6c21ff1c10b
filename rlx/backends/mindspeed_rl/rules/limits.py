"""MindSpeed-RL: what it takes without a word and does not do, and what rlx cannot launch on it."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.mindspeed_rl.rules.facts import GENERATE, MindSpeedRlFacts
from rlx.preflight.rules.rule_table import Flaw, error, rule, warning

_SEED = f"{GENERATE}.sampling_config.seed"
_TARGETS = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")


@rule(
    "RLX160",
    title="MindSpeed-RL: one seed for all samples of a prompt",
    why="each sample is a request of its own: with the same seed they are all the same, and there is no advantage",
    fix="leave `sampling_config.seed` to rlx, which writes null",
    source="MindSpeed-RL 05a90d77, models/rollout/vllm_engine.py:165 and put_prompts_experience of transfer_dock.py",
)
def sampling_seed(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    n = facts.recipe.rollout.n
    if facts.setting(_SEED) is not None and n > 1:
        message = f"{facts.named(_SEED)}: the {n} answers to a prompt will be alike"
        yield warning(message, "remove it", facts.source(_SEED))


@rule(
    "RLX161",
    title="MindSpeed-RL: a KL term that nothing counts",
    why="only its PPO subtracts KL from the reward, and DAPO has no reference model at all",
    fix="`algorithm.kl: {place: loss}` with GRPO, and no `algorithm.kl` with DAPO",
    source="MindSpeed-RL 05a90d77: use_kl_in_reward is read by trainer/ppo_trainer_hybrid.py only; cli/train_dapo.py",
)
def kl(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    algorithm = facts.recipe.algorithm
    if algorithm.kl is None:
        return
    if algorithm.kind == "dapo":
        yield error("algorithm.kl: DAPO has no reference model", "algorithm.kl null", "algorithm.kl")
    elif algorithm.kl.place == "reward" and algorithm.kind != "ppo":
        message = f"algorithm.kl.place reward: MindSpeed-RL does not count it with {algorithm.kind}"
        yield error(message, "algorithm.kl.place loss", "algorithm.kl.place")


@rule(
    "RLX162",
    title="MindSpeed-RL: another engine than Megatron",
    why="it trains with Megatron only: `backend.engine` would say what is not so",
    fix="`backend.engine: megatron`",
    source="MindSpeed-RL 05a90d77, README",
)
def engine(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    name = facts.recipe.backend.engine
    if name != "megatron":
        message = f"backend.engine {name}: MindSpeed-RL has Megatron only"
        yield error(message, "backend.engine megatron", "backend.engine")


@rule(
    "RLX163",
    title="MindSpeed-RL: adapters on modules by other names",
    why="the names are Megatron's: nothing is called q_proj there, and MindSpeed-LLM fails or trains nothing",
    fix="linear_qkv, linear_proj, linear_fc1, linear_fc2, or all-linear",
    source="MindSpeed-RL 05a90d77, configs/grpo_lora_qwen25_32b_A2.yaml",
)
def targets(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    lora = facts.recipe.model.lora
    if lora and lora.targets != "all-linear" and (others := [one for one in lora.targets if one not in _TARGETS]):
        fix = f"of {', '.join(_TARGETS)}"
        yield error(f"model.lora.targets {', '.join(others)}: no names of Megatron's", fix, "model.lora.targets")


@rule(
    "RLX665",
    title="MindSpeed-RL: a correction of off-policy samples",
    why="it drops the probabilities that vLLM returns, so it can neither weigh nor reject by them",
    fix="no `algorithm.correction`, or verl",
    source="MindSpeed-RL 05a90d77, models/rollout/vllm_engine.py: log probabilities of the answers are not kept",
)
def correction(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    if facts.recipe.algorithm.correction is not None:
        message = "algorithm.correction: MindSpeed-RL knows no probabilities of the rollout to correct by"
        yield error(message, "algorithm.correction null", "algorithm.correction")


@rule(
    "RLX167",
    title="MindSpeed-RL: a seed for each request",
    why="its requests carry no seed, and nothing of rlx gives them one there",
    fix="`rollout.deterministic: false`, or verl 0.9",
    source="MindSpeed-RL 05a90d77, models/rollout/vllm_engine.py: one SamplingParams for all prompts",
)
def seeds_of_requests(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    if facts.recipe.rollout.deterministic:
        message = "rollout.deterministic: MindSpeed-RL gives no request a seed of its own"
        yield error(message, "rollout.deterministic false", "rollout.deterministic")
