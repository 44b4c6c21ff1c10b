"""`eval: post` after a training of MindSpeed-RL: its checkpoint, what converts it, and something that grades."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.mindspeed_rl.rules.facts import MindSpeedRlFacts
from rlx.planning.rules.number_text import divisors, near, one_of
from rlx.planning.rules.rule_table import Flaw, error, rule


@rule("RLX164")
def converter(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    post = facts.recipe.eval.post
    if post is not None and post.convert is None:
        fix = "eval.post.convert: /data/mcore2hf.sh, which calls MindSpeed-LLM's convert_ckpt.py for this model"
        yield error("eval.post: MindSpeed-RL's checkpoints are Megatron's, and nothing converts them", fix, "eval.post")


@rule("RLX165")
def grading(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    post = facts.recipe.eval.post
    if post is None or not (post.reward is None or (isinstance(post.reward, str) and post.reward != "gsm8k")):
        return
    said = "the recipe's verifiers" if post.reward is None else f"{post.reward}"
    fix = "eval.post.reward: gsm8k, or {path: FILE.py, function: compute_score}"
    yield error(f"eval.post: {said} cannot grade outside MindSpeed-RL", fix, "eval.post.reward")


@rule("RLX166")
def last_iteration(facts: MindSpeedRlFacts) -> Iterator[Flaw]:
    every, steps = facts.count("megatron_training.save_interval"), facts.count("megatron_training.train_iters")
    is_ppo = facts.recipe.eval.post is not None and facts.recipe.algorithm.kind == "ppo"
    if is_ppo and every and steps and steps % every:
        named = facts.named("megatron_training.save_interval")
        message = f"{named} does not divide the {steps} iterations, and PPO does not save the last one by itself"
        yield error(message, f"train.save_every {one_of(near(divisors(steps), every))}", "train.save_every")
