"""A resolved recipe as settings of MindSpeed-RL's YAML, section by section, and the YAML itself.

Sources: the shipped configs/grpo_qwen25_7b_A3.yaml, ppo_qwen25_32b_A3.yaml and dapo_qwen3_30b_a3b_A3.yaml for what no
recipe says and they agree on; configs/model/ (branches 2.2.0, 2.3.0 and master) for the descriptions of models.
MindSpeed-RL counts iterations only, and repeats the data as often as they need (`_build_index_mappings` of
datasets/utils.py extends the index until it has train_iters × batch rows).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlx.backends.shared.overrides import Override, path_on_all_nodes, path_override, refuse_interpolation, run_path
from rlx.backends.shared.rendering import EffectiveSettings, Rendering

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

MODEL = "megatron_training.model"
LOAD = "actor_config.load"
CRITIC_LOAD = "critic_config.load"
HYDRA_DIR = "hydra.run.dir"
_SHIPPED = {
    "qwen2.5-7b": "qwen25_7b",
    "qwen2.5-32b": "qwen25_32b",
    "qwen3-8b": "qwen3_8b",
    "qwen3-32b": "qwen3_32b",
    "qwen3-30b-a3b": "qwen3_30b_a3b",
    "qwen3-235b-a22b": "qwen3_235b_a22b",
    "deepseek-v3": "deepseekv3_671b",
    "deepseek-r1": "deepseekv3_671b",
}
SHIPPED = frozenset(_SHIPPED.values())
SHARED, ACTOR, CRITIC = "megatron_training", "actor_config", "critic_config"
ALL_LINEAR = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")
_KERNELS = {
    "use_fused_rmsnorm": True,
    "use_mcore_models": True,
    "use_flash_attn": True,
    "no_masked_softmax_fusion": True,
    "attention_softmax_in_fp32": True,
    "no_gradient_accumulation_fusion": True,
    "use_fused_swiglu": True,
    "use_fused_rotary_pos_emb": True,
    "use_distributed_optimizer": True,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "init_method_std": 0.01,
    "distributed_backend": "nccl",
    "no_shared_storage": True,
}
_DATA = {"dataset_additional_keys": ["labels"], "split": "100,0,0", "no_shuffle": False}
_OPTIMIZER = {
    "lr_decay_style": "constant",
    "min_lr": 0.0,
    "weight_decay": 0.01,
    "lr_warmup_fraction": 0.0,
    "clip_grad": 1.0,
    "adam_beta1": 0.9,
    "adam_beta2": 0.95,
}
# The weights are those of a converted model, not of a run that goes on.
_LOADING = {"finetune": True, "no_load_optim": True, "no_load_rng": True}
_SPLITS = {
    "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size",
    "ep": "expert_model_parallel_size",
    "cp": "context_parallel_size",
}
_RL = "rl_config"
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
_GENERATE = "generate_config"
SAMPLING = f"{_GENERATE}.sampling_config"
# Training and rollout take turns on the same NPUs.
_OFFLOADED = {f"offload_train_{what}": True for what in ("optimizer", "grad", "param")}
_MOST_SEQUENCES = 1024
_BATCHED_TOKENS = 8192


def rendered(rendering: MindSpeedRlRendering) -> tuple[Override, ...]:
    """Render what rlx itself writes, without the recipe's own `overrides`."""
    # Hydra's default is a folder in the working directory, which the runs share.
    own = Override(HYDRA_DIR, run_path("RLX_ATTEMPT_DIR", "hydra"), "name", verbatim=True)
    return (*(setting for section in (_megatron, _algorithm, _generation) for setting in section(rendering)), own)


def chosen(rendering: MindSpeedRlRendering) -> tuple[Override, ...]:
    """Render what rlx writes, with the recipe's `overrides` in place of their own and behind it."""
    own = own_overrides(rendering)
    taken = {setting.key for setting in own}
    kept = (setting for setting in leaves(rendered(rendering)) if setting.key not in taken)
    return tuple(setting for setting in (*kept, *leaves(own)) if setting.prefix != "~")


def own_overrides(rendering: MindSpeedRlRendering) -> tuple[Override, ...]:
    """Read the recipe's `overrides`, with the names of keys as MindSpeed-RL reads them: `-` is `_`."""
    return tuple(
        Override.read(key if "/" in key else key.replace("-", "_"), value)
        for key, value in rendering.recipe.overrides.items()
    )


def leaves(settings: tuple[Override, ...]) -> Iterator[Override]:
    """Split maps into the keys that they set."""
    for setting in settings:
        if isinstance(setting.value, dict) and setting.value and setting.prefix != "~":
            below = (
                Override(f"{setting.key}.{name}", value, setting.source, setting.prefix, setting.verbatim)
                for name, value in setting.value.items()
            )
            yield from leaves(tuple(below))
        else:
            yield setting


def settings_of(rendering: MindSpeedRlRendering) -> EffectiveSettings:
    """Return the classes' defaults with the YAML over them."""
    overrides = chosen(rendering)
    return EffectiveSettings(
        rendering.version,
        rendering.table.defaults,
        {setting.key: setting.value for setting in overrides},
        {setting.key: setting.source for setting in overrides},
        frozenset(setting.key for setting in own_overrides(rendering) if setting.prefix == "~"),
    )


def document(rendering: MindSpeedRlRendering) -> dict[str, Any]:
    """Build the YAML's content. Raises UsageError for text that OmegaConf would replace."""
    result: dict[str, Any] = {}
    if rendering.model_name in SHIPPED:
        result["defaults"] = [{"model": [rendering.model_name]}, "_self_"]
    for setting in chosen(rendering):
        if not setting.verbatim:
            refuse_interpolation(setting.value, setting.source)
        _put(result, setting.key.split("."), setting.value)
    return result


def _put(tree: dict[str, Any], path: list[str], value: Any) -> None:
    *folders, name = path
    for folder in folders:
        inner = tree.setdefault(folder, {})
        if not isinstance(inner, dict):
            inner = tree[folder] = {}
        tree = inner
    tree[name] = value


@dataclass(frozen=True, slots=True)
class MindSpeedRlRendering(Rendering):
    """A resolved recipe and the keys of the MindSpeed-RL it is written for."""

    @property
    def kind(self) -> str:
        return self.recipe.algorithm.kind

    @property
    def npus(self) -> int:
        return self.recipe.layout.nodes * self.recipe.layout.devices_per_node

    @property
    def longest(self) -> int:
        """Tokens of the longest sample: prompt and response."""
        return self.recipe.data.max_prompt_tokens + self.recipe.data.max_response_tokens

    @property
    def model_name(self) -> str | None:
        """The name of the model's description: from the recipe's overrides, else the shipped one."""
        name = self.recipe.overrides.get(MODEL)
        return name if isinstance(name, str) else sub_config(self.recipe.model.arch)

    @property
    def verifiers(self) -> tuple[str, ...]:
        """Named in the recipe; () for a reward that has none."""
        from rlx.recipe.schema import VerifierReward

        reward = self.recipe.reward
        if isinstance(reward, VerifierReward):
            return reward.verifiers
        return (reward,) if isinstance(reward, str) else ()


def plain(section: str, source: str, values: Mapping[str, object]) -> Iterator[Override]:
    """Write settings that all follow from one key of the recipe, or from the back-end alone."""
    return (Override(f"{section}.{name}", value, source) for name, value in values.items())


def sub_config(architecture: str | None) -> str | None:
    """Name the shipped description of `model.arch`; None if there is none."""
    return _SHIPPED.get(architecture or "")


def architecture(name: str) -> str | None:
    """Return the `model.arch` of a shipped description; None for any other description."""
    return next((arch for arch, shipped in _SHIPPED.items() if shipped == name), None)


def iterations(recipe: Recipe) -> int | None:
    """`train.steps`, else whole batches in all epochs; None where the recipe has neither."""
    train, rows = recipe.train, recipe.data.train_rows
    if train.steps is not None or rows is None:
        return train.steps
    return rows * train.epochs // train.batch_size


def epoch_iterations(recipe: Recipe) -> int | None:
    """Count whole batches in the rows; None where the recipe does not give the number of rows."""
    rows = recipe.data.train_rows
    return None if rows is None else rows // recipe.train.batch_size


def checkpoint_interval(recipe: Recipe) -> int | None:
    """Choose the interval of saving. Never is no number: then the end of the run, where GRPO and DAPO save anyway."""
    return recipe.train.save_every or iterations(recipe)


def _megatron(rendering: MindSpeedRlRendering) -> Iterator[Override]:
    yield from _shared(rendering)
    yield from _lora(rendering)
    yield from _role(rendering, ACTOR)
    if rendering.kind == "ppo":
        yield from _role(rendering, CRITIC)
        if weights := rendering.recipe.overrides.get(LOAD):
            # The shipped example starts the critic from the actor's weights.
            yield Override(CRITIC_LOAD, weights, f"overrides.{LOAD}", verbatim=True)


def _shared(rendering: MindSpeedRlRendering) -> Iterator[Override]:
    recipe = rendering.recipe
    yield Override(MODEL, rendering.model_name, "model.arch")
    yield from plain(SHARED, "backend.kind", _KERNELS | _DATA)
    # Megatron turns it off without tensor parallelism, and logs that in each rank.
    yield Override(f"{SHARED}.sequence_parallel", recipe.layout.tp > 1, "layout.tp")
    yield Override(f"{SHARED}.bf16", recipe.model.dtype == "bfloat16", "model.dtype")
    yield Override(f"{SHARED}.tokenizer_type", "PretrainedFromHF", "model.path")
    yield path_override(f"{SHARED}.tokenizer_name_or_path", recipe.model.path, "model.path")
    yield path_override(f"{SHARED}.data_path", recipe.data.train, "data.train")
    yield Override(f"{SHARED}.global_batch_size", recipe.train.batch_size, "train.batch_size")
    yield Override(f"{SHARED}.seq_length", rendering.longest, "data.max_response_tokens")
    yield Override(f"{SHARED}.train_iters", iterations(recipe), "train.steps")
    yield Override(f"{SHARED}.save_interval", checkpoint_interval(recipe), "train.save_every")
    yield Override(f"{SHARED}.stage", f"ray_{rendering.kind}", "algorithm.kind")
    yield Override(f"{SHARED}.seed", recipe.seed, "seed")


def _lora(rendering: MindSpeedRlRendering) -> Iterator[Override]:
    """Set LoRA here, because nothing reads the section that docs/zh/features/grpo_lora.md names."""
    lora = rendering.recipe.model.lora
    if lora is None:
        return
    targets = ALL_LINEAR if lora.targets == "all-linear" else lora.targets
    alpha = int(lora.alpha) if lora.alpha.is_integer() else lora.alpha
    yield Override(f"{SHARED}.lora_r", lora.rank, "model.lora.rank")
    yield Override(f"{SHARED}.lora_alpha", alpha, "model.lora.alpha")
    yield Override(f"{SHARED}.lora_fusion", True, "model.lora.rank")
    yield Override(f"{SHARED}.lora_ckpt_filter", True, "model.lora.rank")
    yield Override(f"{SHARED}.lora_target_modules", list(targets), "model.lora.targets")


def _role(rendering: MindSpeedRlRendering, section: str) -> Iterator[Override]:
    recipe = rendering.recipe
    yield Override(f"{section}.model", rendering.model_name, "model.arch")
    yield Override(f"{section}.micro_batch_size", recipe.train.micro_batch_size, "train.micro_batch_size")
    for field, key in _SPLITS.items():
        yield Override(f"{section}.{key}", getattr(recipe.layout, field), f"layout.{field}")
    if recipe.layout.ep > 1:
        # The weights cannot be handed to the rollout otherwise.
        yield Override(f"{section}.moe_tp_extend_ep", True, "layout.ep")
    yield Override(f"{section}.lr", recipe.train.lr, "train.lr")
    yield from plain(section, "backend.kind", _OPTIMIZER | _LOADING)
    folder = path_on_all_nodes(recipe, "checkpoints" if section == ACTOR else "checkpoints-critic")
    yield Override(f"{section}.save", folder, "train.save_every", verbatim=True)


def _algorithm(rendering: MindSpeedRlRendering) -> Iterator[Override]:
    recipe, npus = rendering.recipe, {"num_npus": rendering.npus}
    yield from plain(_RL, "backend.kind", _FIXED)
    # launch.sh writes it: the workers get its variables, and not those that launch.sh exports.
    yield Override(f"{_RL}.runtime_env_path", run_path("RLX_ATTEMPT_DIR", "runtime_env.yaml"), "env", verbatim=True)
    yield Override(f"{_RL}.adv_estimator", ESTIMATORS.get(rendering.kind), "algorithm.kind")
    yield from _kl(rendering)
    # In prompts, as in the recipe: RLConfig multiplies by n itself.
    yield Override(f"{_RL}.mini_batch_size", recipe.train.mini_batch_size, "train.mini_batch_size")
    yield Override(f"{_RL}.n_samples_per_prompt", recipe.rollout.n, "rollout.n")
    yield Override(f"{_RL}.max_prompt_length", recipe.data.max_prompt_tokens, "data.max_prompt_tokens")
    forward, source = recipe.rollout.log_prob_micro_batch_size, "rollout.log_prob_micro_batch_size"
    yield Override(f"{_RL}.actor_forward_micro_batch_size", forward, source)
    yield Override(f"{_RL}.ref_forward_micro_batch_size", forward, source)
    yield from _reward(rendering)
    yield Override(f"{_RL}.actor_resource", npus, "layout.devices_per_node")
    if rendering.kind == "ppo":
        yield Override(f"{_RL}.critic_resource", npus, "layout.devices_per_node")
    if rendering.kind == "dapo":
        yield from _dapo(rendering)
    if recipe.model.lora and rendering.kind != "dapo":
        # The reference is the actor without its adapters; DAPO has none, and refuses this.
        yield Override(f"{_RL}.share_backbone", True, "model.lora.rank")


def _kl(rendering: MindSpeedRlRendering) -> Iterator[Override]:
    kl = rendering.recipe.algorithm.kl
    yield Override(f"{_RL}.init_kl_coef", kl.coef if kl else 0.0, "algorithm.kl.coef")
    if kl:
        yield Override(f"{_RL}.kl_penalty", kl.estimator, "algorithm.kl.estimator")
    if kl and kl.place == "reward":
        yield Override(f"{_RL}.use_kl_in_reward", True, "algorithm.kl.place")


def _reward(rendering: MindSpeedRlRendering) -> Iterator[Override]:
    weights = getattr(rendering.recipe.reward, "weights", None) or [1.0] * len(rendering.verifiers)
    yield Override(f"{_RL}.verifier_function", list(rendering.verifiers), "reward")
    yield Override(f"{_RL}.verifier_weight", list(weights), "reward")


def _dapo(rendering: MindSpeedRlRendering) -> Iterator[Override]:
    recipe = rendering.recipe
    longest = recipe.data.max_response_tokens
    yield from plain(_RL, "algorithm.kind", _DAPO)
    yield Override(f"{_RL}.rollout_max_tokens", longest, "data.max_response_tokens")
    yield Override(f"{_RL}.overlong_buffer", longest // _BUFFER_SHARE, "data.max_response_tokens")
    yield Override(f"{_RL}.filter_groups_metric", next(iter(rendering.verifiers), ""), "reward")
    yield Override(f"{_RL}.filter_groups_train_batch_size", recipe.train.batch_size, "train.batch_size")


def _generation(rendering: MindSpeedRlRendering) -> Iterator[Override]:
    recipe, rollout = rendering.recipe, rendering.recipe.rollout
    yield from plain(_GENERATE, "backend.kind", _OFFLOADED)
    yield Override(f"{_GENERATE}.infer_tensor_parallel_size", rollout.tp, "rollout.tp")
    yield Override(f"{_GENERATE}.infer_pipeline_parallel_size", 1, "backend.kind")
    yield Override(f"{_GENERATE}.infer_expert_parallel_size", rollout.ep, "rollout.ep")
    yield Override(f"{_GENERATE}.enable_expert_parallel", rollout.ep > 1, "rollout.ep")
    yield Override(f"{_GENERATE}.max_num_seqs", _sequences(rendering), "rollout.n")
    yield Override(f"{_GENERATE}.max_model_len", rendering.longest, "data.max_response_tokens")
    batched = max(_BATCHED_TOKENS, rendering.longest)
    yield Override(f"{_GENERATE}.max_num_batched_tokens", batched, "data.max_response_tokens")
    yield Override(f"{_GENERATE}.dtype", recipe.model.dtype, "model.dtype")
    yield Override(f"{_GENERATE}.gpu_memory_utilization", rollout.memory_fraction, "rollout.memory_fraction")
    yield Override(f"{_GENERATE}.enforce_eager", rollout.enforce_eager, "rollout.enforce_eager")
    yield from _sampling(rendering)


def _sequences(rendering: MindSpeedRlRendering) -> int:
    """Count the sequences at a time: as many as a replica gets, at most those of the examples. The default is one."""
    recipe = rendering.recipe
    replicas = max(1, rendering.npus // recipe.rollout.tp)
    return min(_MOST_SEQUENCES, -(-recipe.train.batch_size * recipe.rollout.n // replicas))


def _sampling(rendering: MindSpeedRlRendering) -> Iterator[Override]:
    rollout = rendering.recipe.rollout
    yield Override(f"{SAMPLING}.logprobs", 1, "backend.kind")
    yield Override(f"{SAMPLING}.max_tokens", rendering.recipe.data.max_response_tokens, "data.max_response_tokens")
    yield Override(f"{SAMPLING}.top_p", rollout.top_p, "rollout.top_p")
    yield Override(f"{SAMPLING}.top_k", rollout.top_k, "rollout.top_k")
    yield Override(f"{SAMPLING}.min_p", 0.0, "backend.kind")
    yield Override(f"{SAMPLING}.temperature", rollout.temperature, "rollout.temperature")
    yield Override(f"{SAMPLING}.detokenize", False, "backend.kind")
    # Each sample of a prompt is a request of its own: one seed would make them all the same.
    yield Override(f"{SAMPLING}.seed", None, "backend.kind")
