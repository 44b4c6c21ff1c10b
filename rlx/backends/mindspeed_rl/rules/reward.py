"""MindSpeed-RL: rewards, sampling and validation, where it takes wrong values without a word."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.mindspeed_rl.rules.facts import ACTOR, CHECKS, MindSpeedRlFacts
from rlx.preflight.rules.number_text import divisors, near, one_of
from rlx.preflight.rules.rule_table import Flaw, error, note, rule, warning

VERIFIERS = (
    *("acc", "format", "step", "strict_format", "base_acc", "math_17k_acc", "acc_for_dapo", "acc_for_ppo"),
    *("math_verify_reward", "retool_reward"),
)


@rule(
    "RLX150",
    title="MindSpeed-RL: no such verifier",
    why="it skips unknown names without a word: the reward is 0 for ever",
    fix="one of its own names",
    source="MindSpeed-RL 05a90d77, models/rule_verifier.py",
)
def verifiers(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    for name in _verifiers(facts):
        if name not in VERIFIERS:
            yield error(f"reward: MindSpeed-RL has no verifier {name}", f"one of {', '.join(VERIFIERS)}", "reward")


@rule(
    "RLX151",
    title="MindSpeed-RL: a reward file",
    why="it has named verifiers only",
    fix="`reward: {verifiers: [math_17k_acc]}`",
    source="MindSpeed-RL 05a90d77, models/rule_verifier.py",
)
def reward_file(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    from rlx.recipe.schema import FunctionReward

    if isinstance(facts.recipe.reward, FunctionReward):
        message = "reward.path: MindSpeed-RL has named verifiers only"
        yield error(message, f"reward: {{verifiers: [one of {', '.join(VERIFIERS)}]}}", "reward.path")


@rule(
    "RLX152",
    title="MindSpeed-RL: sampling that leaves little to compare",
    why="answers to one prompt are nearly the same at a low temperature; a small top_k samples another policy",
    fix="`rollout.temperature: 1.0` and `top_k: -1`",
    source="its defaults temperature 0.2 and top_k 50 against its own GRPO samples with 1.0 and -1",
)
def sampling(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    rollout = facts.recipe.rollout
    if rollout.temperature <= 0.2:
        message = f"rollout.temperature {rollout.temperature:g}: the answers to a prompt hardly differ"
        yield warning(message, "rollout.temperature 1.0", "rollout.temperature")
    if 0 < rollout.top_k <= 50:
        message = f"rollout.top_k {rollout.top_k}: the answers are of a narrower policy than the one that is trained"
        yield warning(message, "rollout.top_k -1", "rollout.top_k")


@rule(
    "RLX153",
    title="MindSpeed-RL: another precision than bfloat16",
    why="it asserts bf16 for training and rollout at the start",
    fix="`model.dtype: bfloat16`",
    source=f"{CHECKS}:26",
)
def precision(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    dtype = facts.recipe.model.dtype
    if dtype != "bfloat16":
        yield error(f"model.dtype {dtype}: MindSpeed-RL takes bfloat16 only", "model.dtype bfloat16", "model.dtype")


@rule(
    "RLX154",
    title="MindSpeed-RL: the mini batch does not divide the batch",
    why="dispatch sizes do not fit: it refuses the configuration, or drops the rest",
    fix="a `train.mini_batch_size` that divides `train.batch_size`",
    source=f"{CHECKS}:368, :378-447; mini_batch_size is multiplied by n inside",
)
def mini_batch(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    train = facts.recipe.train
    if train.batch_size % train.mini_batch_size:
        message = f"train.mini_batch_size {train.mini_batch_size} does not divide train.batch_size {train.batch_size}"
        fits = one_of(near(divisors(train.batch_size), train.mini_batch_size))
        yield error(message, f"train.mini_batch_size {fits}", "train.mini_batch_size")


@rule(
    "RLX155",
    title="MindSpeed-RL: no validation during training",
    why="it has no validation loop: eval.every is not carried out, and there is no accuracy on held-out data",
    fix="`eval.every: null`, and `eval.post` for the last checkpoint",
    source="MindSpeed-RL 05a90d77: train_valid_test_num_samples [..., 0, 0]",
)
def no_validation(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    every = facts.recipe.eval.every
    if every:
        fix = "eval.every null; eval.post evaluates the last checkpoint"
        yield warning(f"eval.every {every}: MindSpeed-RL never validates", fix, "eval.every")


@rule(
    "RLX157",
    title="MindSpeed-RL: a verifier that wants tags in the answer",
    why="an answer without them scores 0 however right it is, and stays so if the prompt does not ask for them",
    fix="say the form in the prompt, or take `math_17k_acc`",
    source="MindSpeed-RL 05a90d77, models/rule_verifier.py: base_acc reads <think>…</think>…<answer>…\\boxed{}…",
)
def tags(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    if "base_acc" in _verifiers(facts):
        form = "<think>…</think><answer>…\\boxed{…}…</answer>"
        yield note(f"reward base_acc counts answers of the form {form} only", "ask for it in the prompt", "reward")


@rule(
    "RLX156",
    title="MindSpeed-RL: an algorithm that it does not have",
    why="its trainers are GRPO, DAPO and PPO: there is no command to start another",
    fix="`algorithm.kind: grpo`, `dapo` or `ppo`, or verl",
    source="MindSpeed-RL 05a90d77: cli/train_{grpo,dapo,ppo,dpo}.py; stage ray_grpo, ray_dapo, ray_ppo",
)
def algorithm(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    kind = facts.recipe.algorithm.kind
    if kind not in ("grpo", "dapo", "ppo"):
        yield error(
            f"algorithm.kind {kind}: MindSpeed-RL has none", "algorithm.kind grpo, dapo or ppo", "algorithm.kind"
        )


@rule(
    "RLX158",
    title="MindSpeed-RL: noise of its own, or with MindSpore",
    why="it has no noise injection, and rlx brings one for torch only: the arm would train without noise",
    fix="`aqn.provider: payload`, and no `ai_framework`",
    source="MindSpeed-RL 05a90d77, config_cls/base_config.py:15-33; payload/rlx_mindspeed_rl_hook.py",
)
def noise(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    aqn, key = facts.recipe.aqn, f"{ACTOR}.ai_framework"
    if aqn and aqn.provider == "builtin":
        message = "aqn.provider builtin: MindSpeed-RL has no noise of its own"
        yield error(message, "aqn.provider payload", "aqn.provider")
    if aqn and facts.setting(key) is not None:
        yield error(f"aqn with {facts.named(key)}: rlx's noise is for torch", "remove it", facts.source(key))


@rule(
    "RLX159",
    title="MindSpeed-RL: a device or a rollout engine that it does not have",
    why="it trains with Megatron on NPUs and generates with vllm-ascend, nothing else",
    fix="`layout.device: npu` and `rollout.engine: vllm`, or verl",
    source="MindSpeed-RL 05a90d77, README and config_cls/generate_config.py",
)
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
