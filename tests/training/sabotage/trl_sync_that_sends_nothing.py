"""Lets TRL's weight sync to vLLM do nothing, as an engine with a mistake would.

A run loads this as its reward function, before the trainer starts vLLM.
"""

from __future__ import annotations

from typing import Any

from trl.generation.vllm_generation import VLLMGeneration


def compute_score(solution_str: str, ground_truth: str, **_: Any) -> float:
    return float(solution_str.strip().removesuffix("<|im_end|>").strip() == ground_truth)


def _send_nothing(self: Any) -> None:
    """Say nothing, and send nothing."""


VLLMGeneration.sync_weights = _send_nothing
