"""Lets TRL train with one seed, whatever the arguments say.

A run loads this as its reward function, before the trainer is made.
"""

from __future__ import annotations

from typing import Any

import transformers.trainer
import trl.trainer.grpo_trainer

SEED = 1


def compute_score(solution_str: str, ground_truth: str, **_: Any) -> float:
    return float(solution_str.strip().removesuffix("<|im_end|>").strip() == ground_truth)


def _ignoring(act: Any) -> Any:
    return lambda seed, **options: act(SEED, **options)


class _Sampler(trl.trainer.grpo_trainer.RepeatSampler):  # type: ignore[misc]
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "seed": SEED})


for _module in (transformers.trainer, trl.trainer.grpo_trainer):
    _module.set_seed = _ignoring(_module.set_seed)
trl.trainer.grpo_trainer.RepeatSampler = _Sampler
