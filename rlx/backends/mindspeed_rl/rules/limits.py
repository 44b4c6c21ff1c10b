"""MindSpeed-RL: values that it accepts and ignores, rewards and evaluation, and what rlx cannot launch on it."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.mindspeed_rl.rules.facts import ACTOR, GENERATE, MindSpeedRlFacts
from rlx.planning.rules.number_text import divisors, near, one_of
from rlx.planning.rules.rule_table import RuleFinding, error, note, rule, warning

_SEED = f"{GENERATE}.sampling_config.seed"
_TARGETS = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")
VERIFIERS = (
    *("acc", "format", "step", "strict_format", "base_acc", "math_17k_acc", "acc_for_dapo", "acc_for_ppo"),
    *("math_verify_reward", "retool_reward"),
)


@rule("RLX160")
def sampling_seed(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    n = facts.recipe.rollout.n
    if facts.setting(_SEED) is not None and n > 1:
        message = f"{facts.named(_SEED)}: the {n} answers to a prompt will be alike"
        yield warning(message, "remove it", facts.source(_SEED))


@rule("RLX161")
def kl(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    algorithm = facts.recipe.algorithm
    if algorithm.kl is None:
        return
    if algorithm.kind == "dapo":
        yield error("algorithm.kl: DAPO has no reference model", "algorithm.kl null", "algorithm.kl")
    elif algorithm.kl.place == "reward" and algorithm.kind != "ppo":
        message = f"algorithm.kl.place reward: MindSpeed-RL does not count it with {algorithm.kind}"
        yield error(message, "algorithm.kl.place loss", "algorithm.kl.place")


@rule("RLX162")
def engine(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    name = facts.recipe.backend.engine
    if name != "megatron":
        message = f"backend.engine {name}: MindSpeed-RL has Megatron only"
        yield error(message, "backend.engine megatron", "backend.engine")


@rule("RLX163")
def targets(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    lora = facts.recipe.model.lora
    if lora and lora.targets != "all-linear" and (others := [one for one in lora.targets if one not in _TARGETS]):
        fix = f"of {', '.join(_TARGETS)}"
        yield error(f"model.lora.targets {', '.join(others)}: no names of Megatron's", fix, "model.lora.targets")


@rule("RLX665")
def correction(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    if facts.recipe.algorithm.correction is not None:
        message = "algorithm.correction: MindSpeed-RL knows no probabilities of the rollout to correct by"
        yield error(message, "algorithm.correction null", "algorithm.correction")


@rule("RLX167")
def seeds_of_requests(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    if facts.recipe.rollout.deterministic:
        message = "rollout.deterministic: MindSpeed-RL gives no request a seed of its own"
        yield error(message, "rollout.deterministic false", "rollout.deterministic")


@rule("RLX164")
def converter(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    post = facts.recipe.eval.post
    if post is not None and post.convert is None:
        fix = "eval.post.convert: /data/mcore2hf.sh, which calls MindSpeed-LLM's convert_ckpt.py for this model"
        yield error("eval.post: MindSpeed-RL's checkpoints are Megatron's, and nothing converts them", fix, "eval.post")


@rule("RLX165")
def grading(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    post = facts.recipe.eval.post
    if post is None or not (post.reward is None or (isinstance(post.reward, str) and post.reward != "gsm8k")):
        return
    grader = "the recipe's verifiers" if post.reward is None else f"{post.reward}"
    fix = "eval.post.reward: gsm8k, or {path: FILE.py, function: compute_score}"
    yield error(f"eval.post: {grader} cannot grade outside MindSpeed-RL", fix, "eval.post.reward")


@rule("RLX166")
def last_iteration(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    every, steps = facts.count("megatron_training.save_interval"), facts.count("megatron_training.train_iters")
    is_ppo = facts.recipe.eval.post is not None and facts.recipe.algorithm.kind == "ppo"
    if is_ppo and every and steps and steps % every:
        named = facts.named("megatron_training.save_interval")
        message = f"{named} does not divide the {steps} iterations, and PPO does not save the last one by itself"
        yield error(message, f"train.save_every {one_of(near(divisors(steps), every))}", "train.save_every")


@rule("RLX150")
def verifiers(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    for name in _verifiers(facts):
        if name not in VERIFIERS:
            yield error(f"reward: MindSpeed-RL has no verifier {name}", f"one of {', '.join(VERIFIERS)}", "reward")


@rule("RLX151")
def reward_file(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    from rlx.recipe.schema import FunctionReward

    if isinstance(facts.recipe.reward, FunctionReward):
        message = "reward.path: MindSpeed-RL has named verifiers only"
        yield error(message, f"reward: {{verifiers: [one of {', '.join(VERIFIERS)}]}}", "reward.path")


@rule("RLX152")
def sampling(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    rollout = facts.recipe.rollout
    if rollout.temperature <= 0.2:
        message = f"rollout.temperature {rollout.temperature:g}: the answers to a prompt hardly differ"
        yield warning(message, "rollout.temperature 1.0", "rollout.temperature")
    if 0 < rollout.top_k <= 50:
        message = f"rollout.top_k {rollout.top_k}: the answers are of a narrower policy than the one that is trained"
        yield warning(message, "rollout.top_k -1", "rollout.top_k")


@rule("RLX153")
def precision(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    dtype = facts.recipe.model.dtype
    if dtype != "bfloat16":
        yield error(f"model.dtype {dtype}: MindSpeed-RL takes bfloat16 only", "model.dtype bfloat16", "model.dtype")


@rule("RLX154")
def mini_batch(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    train = facts.recipe.train
    if train.batch_size % train.mini_batch_size:
        message = f"train.mini_batch_size {train.mini_batch_size} does not divide train.batch_size {train.batch_size}"
        fits = one_of(near(divisors(train.batch_size), train.mini_batch_size))
        yield error(message, f"train.mini_batch_size {fits}", "train.mini_batch_size")


@rule("RLX155")
def no_validation(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    every = facts.recipe.eval.every
    if every:
        fix = "eval.every null; eval.post evaluates the last checkpoint"
        yield warning(f"eval.every {every}: MindSpeed-RL never validates", fix, "eval.every")


@rule("RLX157")
def tags(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    if "base_acc" in _verifiers(facts):
        form = "<think>…</think><answer>…\\boxed{…}…</answer>"
        yield note(f"reward base_acc counts answers of the form {form} only", "ask for it in the prompt", "reward")


@rule("RLX156")
def algorithm(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    kind = facts.recipe.algorithm.kind
    if kind not in ("grpo", "dapo", "ppo"):
        yield error(
            f"algorithm.kind {kind}: MindSpeed-RL has none", "algorithm.kind grpo, dapo or ppo", "algorithm.kind"
        )


@rule("RLX158")
def noise(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    aqn, key = facts.recipe.aqn, f"{ACTOR}.ai_framework"
    if aqn and aqn.provider == "builtin":
        message = "aqn.provider builtin: MindSpeed-RL has no noise of its own"
        yield error(message, "aqn.provider payload", "aqn.provider")
    if aqn and facts.setting(key) is not None:
        yield error(f"aqn with {facts.named(key)}: rlx's noise is for torch", "remove it", facts.source(key))


@rule("RLX159")
def platform(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    device, engine = facts.recipe.layout.device, facts.recipe.rollout.engine
    if device != "npu":
        yield error(f"layout.device {device}: MindSpeed-RL runs on NPUs", "layout.device npu", "layout.device")
    if engine != "vllm":
        yield error(f"rollout.engine {engine}: MindSpeed-RL has vllm only", "rollout.engine vllm", "rollout.engine")


def _verifiers(facts: MindSpeedRlFacts) -> tuple[str, ...]:
    from rlx.recipe.schema import VerifierReward

    reward = facts.recipe.reward
    return reward.verifiers if isinstance(reward, VerifierReward) else (reward,) if isinstance(reward, str) else ()


@rule("RLX470")
def no_tracker(facts: MindSpeedRlFacts) -> Iterator[RuleFinding]:
    track = facts.recipe.track
    if track is not None:
        names = ", ".join(track.to)
        fix = f"leave it out; afterwards: rlx export RUN --to {track.to[0]}"
        yield error(f"track: MindSpeed-RL cannot log to {names} without a danger for the run", fix, "track")
