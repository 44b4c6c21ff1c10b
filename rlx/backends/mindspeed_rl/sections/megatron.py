"""Write the settings of Megatron: the shared section, the actor and, for PPO, the critic.

Source of what no recipe says: the shipped configs/grpo_qwen25_7b_A3.yaml, ppo_qwen25_32b_A3.yaml and
dapo_qwen3_30b_a3b_A3.yaml, which agree on it.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlx.backends.mindspeed_rl.length import checkpoint_interval, iterations
from rlx.backends.mindspeed_rl.sections.base import CRITIC_LOAD, LOAD, MODEL, Rendering, plain
from rlx.backends.shared.overrides import Override, path_on_all_nodes, path_override

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


def overrides(rendering: Rendering) -> Iterator[Override]:
    yield from _shared(rendering)
    yield from _lora(rendering)
    yield from _role(rendering, ACTOR)
    if rendering.kind == "ppo":
        yield from _role(rendering, CRITIC)
        yield from _critic_weights(rendering)


def _shared(rendering: Rendering) -> Iterator[Override]:
    recipe = rendering.recipe
    yield Override(MODEL, rendering.model_name, "model.arch")
    yield from plain(SHARED, "backend.kind", _KERNELS | _DATA)
    # Megatron turns it off without tensor parallelism, and says so in each rank.
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


def _lora(rendering: Rendering) -> Iterator[Override]:
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


def _role(rendering: Rendering, section: str) -> Iterator[Override]:
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


def _critic_weights(rendering: Rendering) -> Iterator[Override]:
    """The shipped example starts the critic from the actor's weights."""
    if weights := rendering.recipe.overrides.get(LOAD):
        yield Override(CRITIC_LOAD, weights, f"overrides.{LOAD}", verbatim=True)
