"""Sort differing packages and arguments of TRL by subject; transformers' Trainer is what trains."""

from __future__ import annotations

from rlx.compare.difference_areas import DifferenceArea, Patterns
from rlx.compare.evaluation_conditions import Condition, Conditions
from rlx.model.run_dir import PAYLOAD_DIR

FACTS: Patterns = {DifferenceArea.CODE: ("package trl",)}
OVERRIDES: Patterns = {
    DifferenceArea.EVALUATION: ("eval_*", "per_device_eval_*", "num_generations_eval"),
    DifferenceArea.INCIDENTAL: (
        "logging_*",
        "log_*",
        "report_to",
        "save_*",
        "dataloader_*",
        "hub_*",
        "run_name",
        "output_dir",
    ),
}
# It has one set of sampling parameters, for training and validation.
CONDITIONS: Conditions = {
    Condition.REWARD: ("reward_weights",),
    Condition.SAMPLING: (
        "num_generations_eval",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "repetition_penalty",
        "generation_kwargs*",
    ),
    Condition.LENGTH: ("max_completion_length",),
    Condition.TEMPLATE: ("chat_template_kwargs*",),
}

RENDERED = (f"{PAYLOAD_DIR}/trl.json",)
SET_BY = {
    "max_steps": ("train.steps", "train.epochs", "train.batch_size", "data.train_rows"),
    "seed": ("seed",),
    "per_device_train_batch_size": ("train.micro_batch_size",),
    "gradient_accumulation_steps": ("train.*batch_size", "rollout.n"),
    "steps_per_generation": ("train.*batch_size", "rollout.n"),
    "generation_batch_size": ("train.*batch_size", "rollout.n"),
    "learning_rate": ("train.lr",),
    "beta": ("algorithm.kl", "algorithm.kl.coef"),
    "num_generations": ("rollout.n",),
    "max_completion_length": ("data.max_response_tokens",),
    "temperature": ("rollout.temperature",),
    "top_p": ("rollout.top_p",),
    "top_k": ("rollout.top_k",),
    "use_vllm": ("rollout.engine",),
    "vllm_mode": ("rollout.engine",),
    "vllm_max_model_length": ("rollout.engine", "data.max_prompt_tokens", "data.max_response_tokens"),
    "vllm_gpu_memory_utilization": ("rollout.engine", "rollout.memory_fraction", "layout.device"),
    "vllm_enable_sleep_mode": ("rollout.engine",),
    "vllm_importance_sampling_correction": ("rollout.engine", "algorithm.correction*"),
    "vllm_importance_sampling_mode": ("algorithm.correction*",),
    "vllm_importance_sampling_cap": ("algorithm.correction*",),
    "vllm_importance_sampling_clip_max": ("algorithm.correction*",),
    "eval_strategy": ("eval.every",),
    "eval_steps": ("eval.every",),
    "eval_on_start": ("eval.before_train",),
    "num_generations_eval": ("eval.n",),
    "per_device_eval_batch_size": ("train.micro_batch_size", "eval.n"),
    "use_cpu": ("layout.device",),
    "save_strategy": ("train.save_every",),
    "save_steps": ("train.save_every",),
    "run_name": ("name", "seed", "track", "track.*"),
    "project": ("name", "track", "track.*"),
}
"""An argument of GRPOConfig -> the keys of a recipe that decide it: `arguments.py` writes them, and TRL the size of a
generation."""
