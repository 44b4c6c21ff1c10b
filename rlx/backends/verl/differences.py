"""Sort differing keys and packages of verl by subject: a comparison shows first what can change the result."""

from __future__ import annotations

from rlx.compare.difference_areas import DifferenceArea, Patterns
from rlx.compare.evaluation_conditions import Condition, Conditions

FACTS: Patterns = {DifferenceArea.CODE: ("package verl",)}
OVERRIDES: Patterns = {
    DifferenceArea.EVALUATION: ("*.val_kwargs.*", "trainer.val_*", "trainer.test_freq", "data.val_*"),
    DifferenceArea.LAYOUT: (
        "*max_token_len_per_gpu",
        "*use_dynamic_bsz",
        "trainer.nnodes",
        "trainer.n_gpus_per_node",
        "trainer.device",
    ),
    DifferenceArea.DATA: ("data.*",),
    DifferenceArea.TRAINING: ("trainer.total_*", "trainer.critic_warmup", "trainer.resume_*"),
    DifferenceArea.INCIDENTAL: ("trainer.*", "global_profiler.*", "hydra.*"),
}
# Not the path of a reward function as it was composed: each run has its own copy, and its digest is compared.
CONDITIONS: Conditions = {
    Condition.ROWS: (
        "data.val_max_samples",
        "data.validation_shuffle",
        "data.filter_overlong_prompts",
        "data.truncation",
    ),
    Condition.REWARD: (
        "overrides.*custom_reward_function.path",
        "*custom_reward_function.name",
        "*custom_reward_function.reward_kwargs*",
        "reward_model.reward_manager",
        "reward.reward_manager.name",
        "*reward_model.enable",
        "*reward_model.model.path",
    ),
    Condition.SAMPLING: ("*rollout.val_kwargs", "*rollout.val_kwargs.*"),
    Condition.LENGTH: (
        "data.max_prompt_length",
        "data.max_response_length",
        "*rollout.prompt_length",
        "*rollout.response_length",
    ),
    Condition.PROMPT: ("data.prompt_key",),
    Condition.TEMPLATE: ("data.apply_chat_template_kwargs*", "actor_rollout_ref.model.custom_chat_template"),
    Condition.PRECISION: ("*rollout.dtype", "*rollout.quantization*", "*kv_cache_dtype"),
}
