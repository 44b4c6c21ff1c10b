"""verl's GSM8K reward with a choice of method; verl's own function takes other arguments than verl calls it with."""

from __future__ import annotations

from typing import Any


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, method: str = "strict", **_: Any
) -> dict[str, float]:
    """`acc` beside `score` makes verl report the validation as val-core/…/acc/mean@1."""
    from verl.utils.reward_score import gsm8k

    correct = float(gsm8k.compute_score(solution_str, ground_truth, method=method))
    return {"score": correct, "acc": correct}
