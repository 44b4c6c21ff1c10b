"""Say what differing packages and arguments of TRL are about; transformers' Trainer is what trains."""

from __future__ import annotations

from rlx.compare.difference_areas import Area, Patterns
from rlx.compare.evaluation_conditions import Condition, Conditions

FACTS: Patterns = {Area.CODE: ("package trl",)}
OVERRIDES: Patterns = {
    Area.EVALUATION: ("eval_*", "per_device_eval_*", "num_generations_eval"),
    Area.INCIDENTAL: ("logging_*", "log_*", "report_to", "save_*", "dataloader_*", "hub_*", "run_name"),
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
