"""Reward of the tiny addition task: 1 for exactly the right sum, else 0."""

from __future__ import annotations

from typing import Any


def compute_score(data_source: str, solution_str: str, ground_truth: str, **_: Any) -> dict[str, float]:
    """`acc` beside `score` makes verl report the validation as val-core/…/acc/mean@1."""
    correct = float(solution_str.removesuffix("<|im_end|>").strip() == ground_truth)
    return {"score": correct, "acc": correct}
