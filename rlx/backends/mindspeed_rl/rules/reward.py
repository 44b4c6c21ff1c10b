"""MindSpeed-RL: rewards, sampling and validation, where it takes wrong values without a word."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.mindspeed_rl.rules.facts import ACTOR, MindSpeedRlFacts
from rlx.planning.rules.number_text import divisors, near, one_of
from rlx.planning.rules.rule_table import Flaw, error, note, rule, warning

VERIFIERS = (
    *("acc", "format", "step", "strict_format", "base_acc", "math_17k_acc", "acc_for_dapo", "acc_for_ppo"),
    *("math_verify_reward", "retool_reward"),
)


@rule("RLX150")
def verifiers(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    for name in _verifiers(facts):
        if name not in VERIFIERS:
            yield error(f"reward: MindSpeed-RL has no verifier {name}", f"one of {', '.join(VERIFIERS)}", "reward")


@rule("RLX151")
def reward_file(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    from rlx.recipe.schema import FunctionReward

    if isinstance(facts.recipe.reward, FunctionReward):
        message = "reward.path: MindSpeed-RL has named verifiers only"
        yield error(message, f"reward: {{verifiers: [one of {', '.join(VERIFIERS)}]}}", "reward.path")


@rule("RLX152")
def sampling(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    rollout = facts.recipe.rollout
    if rollout.temperature <= 0.2:
        message = f"rollout.temperature {rollout.temperature:g}: the answers to a prompt hardly differ"
        yield warning(message, "rollout.temperature 1.0", "rollout.temperature")
    if 0 < rollout.top_k <= 50:
        message = f"rollout.top_k {rollout.top_k}: the answers are of a narrower policy than the one that is trained"
        yield warning(message, "rollout.top_k -1", "rollout.top_k")


@rule("RLX153")
def precision(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    dtype = facts.recipe.model.dtype
    if dtype != "bfloat16":
        yield error(f"model.dtype {dtype}: MindSpeed-RL takes bfloat16 only", "model.dtype bfloat16", "model.dtype")


@rule("RLX154")
def mini_batch(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    train = facts.recipe.train
    if train.batch_size % train.mini_batch_size:
        message = f"train.mini_batch_size {train.mini_batch_size} does not divide train.batch_size {train.batch_size}"
        fits = one_of(near(divisors(train.batch_size), train.mini_batch_size))
        yield error(message, f"train.mini_batch_size {fits}", "train.mini_batch_size")


@rule("RLX155")
def no_validation(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    every = facts.recipe.eval.every
    if every:
        fix = "eval.every null; eval.post evaluates the last checkpoint"
        yield warning(f"eval.every {every}: MindSpeed-RL never validates", fix, "eval.every")


@rule("RLX157")
def tags(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    if "base_acc" in _verifiers(facts):
        form = "<think>…</think><answer>…\\boxed{…}…</answer>"
        yield note(f"reward base_acc counts answers of the form {form} only", "ask for it in the prompt", "reward")


@rule("RLX156")
def algorithm(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    kind = facts.recipe.algorithm.kind
    if kind not in ("grpo", "dapo", "ppo"):
        yield error(
            f"algorithm.kind {kind}: MindSpeed-RL has none", "algorithm.kind grpo, dapo or ppo", "algorithm.kind"
        )


@rule("RLX158")
def noise(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    aqn, key = facts.recipe.aqn, f"{ACTOR}.ai_framework"
    if aqn and aqn.provider == "builtin":
        message = "aqn.provider builtin: MindSpeed-RL has no noise of its own"
        yield error(message, "aqn.provider payload", "aqn.provider")
    if aqn and facts.setting(key) is not None:
        yield error(f"aqn with {facts.named(key)}: rlx's noise is for torch", "remove it", facts.source(key))


@rule("RLX159")
def platform(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    device, engine = facts.recipe.layout.device, facts.recipe.rollout.engine
    if device != "npu":
        yield error(f"layout.device {device}: MindSpeed-RL runs on NPUs", "layout.device npu", "layout.device")
    if engine != "vllm":
        yield error(f"rollout.engine {engine}: MindSpeed-RL has vllm only", "rollout.engine vllm", "rollout.engine")


def _verifiers(facts: MindSpeedRlFacts) -> tuple[str, ...]:
    from rlx.recipe.schema import VerifierReward

    reward = facts.recipe.reward
    return reward.verifiers if isinstance(reward, VerifierReward) else (reward,) if isinstance(reward, str) else ()
