"""The algorithm: `rl_config`."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.mindspeed_rl.sections.base import Rendering, plain
from rlx.backends.shared.overrides import Override, run_path

SECTION = "rl_config"
ESTIMATORS = {"grpo": "group_norm", "dapo": "group_norm", "ppo": "gae"}
# One worker of a NPU trains, generates and is the reference; each batch is used once.
_FIXED = {
    "use_integrated_worker": True,
    "blocking": True,
    "guarantee_order": False,
    "epochs": 1,
    "kl_ctrl_type": "fixed",
    "rule_reward": True,
    # Both write into the working directory, which the runs share.
    "use_tensorboard": False,
    "use_wandb": False,
}
# As in the shipped configs/dapo_qwen3_30b_a3b_A3.yaml: without these it is GRPO under another name.
_DAPO = {
    "token_level_loss": True,
    "clip_higher_enable": True,
    "clip_ratio_low": 0.2,
    "clip_ratio_high": 0.28,
    "overlong_buffer_enable": True,
    "overlong_buffer_penalty_factor": 0.1,
    "filter_groups_enable": True,
    "filter_groups_max_batches": -1,
}
_BUFFER_SHARE = 4


def overrides(rendering: Rendering) -> Iterator[Override]:
    recipe, npus = rendering.recipe, {"num_npus": rendering.npus}
    yield from plain(SECTION, "backend.kind", _FIXED)
    # launch.sh writes it: the workers get its variables, and not those that launch.sh exports.
    yield Override(f"{SECTION}.runtime_env_path", run_path("RLX_ATTEMPT_DIR", "runtime_env.yaml"), "env", verbatim=True)
    yield Override(f"{SECTION}.adv_estimator", ESTIMATORS.get(rendering.kind), "algorithm.kind")
    yield from _kl(rendering)
    # In prompts, as in the recipe: RLConfig multiplies by n itself.
    yield Override(f"{SECTION}.mini_batch_size", recipe.train.mini_batch_size, "train.mini_batch_size")
    yield Override(f"{SECTION}.n_samples_per_prompt", recipe.rollout.n, "rollout.n")
    yield Override(f"{SECTION}.max_prompt_length", recipe.data.max_prompt_tokens, "data.max_prompt_tokens")
    forward, source = recipe.rollout.log_prob_micro_batch_size, "rollout.log_prob_micro_batch_size"
    yield Override(f"{SECTION}.actor_forward_micro_batch_size", forward, source)
    yield Override(f"{SECTION}.ref_forward_micro_batch_size", forward, source)
    yield from _reward(rendering)
    yield Override(f"{SECTION}.actor_resource", npus, "layout.devices_per_node")
    if rendering.kind == "ppo":
        yield Override(f"{SECTION}.critic_resource", npus, "layout.devices_per_node")
    if rendering.kind == "dapo":
        yield from _dapo(rendering)
    if recipe.model.lora and rendering.kind != "dapo":
        # The reference is the actor without its adapters; DAPO has none, and refuses this.
        yield Override(f"{SECTION}.share_backbone", True, "model.lora.rank")


def _kl(rendering: Rendering) -> Iterator[Override]:
    kl = rendering.recipe.algorithm.kl
    yield Override(f"{SECTION}.init_kl_coef", kl.coef if kl else 0.0, "algorithm.kl.coef")
    if kl:
        yield Override(f"{SECTION}.kl_penalty", kl.estimator, "algorithm.kl.estimator")
    if kl and kl.place == "reward":
        yield Override(f"{SECTION}.use_kl_in_reward", True, "algorithm.kl.place")


def _reward(rendering: Rendering) -> Iterator[Override]:
    weights = getattr(rendering.recipe.reward, "weights", None) or [1.0] * len(rendering.verifiers)
    yield Override(f"{SECTION}.verifier_function", list(rendering.verifiers), "reward")
    yield Override(f"{SECTION}.verifier_weight", list(weights), "reward")


def _dapo(rendering: Rendering) -> Iterator[Override]:
    recipe = rendering.recipe
    longest = recipe.data.max_response_tokens
    yield from plain(SECTION, "algorithm.kind", _DAPO)
    yield Override(f"{SECTION}.rollout_max_tokens", longest, "data.max_response_tokens")
    yield Override(f"{SECTION}.overlong_buffer", longest // _BUFFER_SHARE, "data.max_response_tokens")
    yield Override(f"{SECTION}.filter_groups_metric", next(iter(rendering.verifiers), ""), "reward")
    yield Override(f"{SECTION}.filter_groups_train_batch_size", recipe.train.batch_size, "train.batch_size")
