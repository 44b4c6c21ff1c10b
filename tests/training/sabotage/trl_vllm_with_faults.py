"""Breaks the noise in vLLM in the process of TRL, as a user's code with mistakes would.

What vLLM has cached of prompts stays when weights change. The noise of step 5 is overwritten with clean weights as soon
as it is recorded. In the validation of step 3 the final norm is noisy, and no record tells.

A run loads this as its reward function, before the trainer starts vLLM.
"""

from __future__ import annotations

from typing import Any

import rlx_aqn
import torch
import vllm

UNTOLD = ("validation", 3)
OVERWRITTEN = ("rollout", 5)

_apply = rlx_aqn.Injector.apply
_restore = rlx_aqn.Injector.restore
_untold: list[tuple[torch.Tensor, torch.Tensor]] = []  # weight, clean


def compute_score(solution_str: str, ground_truth: str, **_: Any) -> float:
    return float(solution_str.strip().removesuffix("<|im_end|>").strip() == ground_truth)


def _keep(self: Any) -> None:
    """Say nothing, and empty nothing."""


@torch.inference_mode()
def _apply_and_go_on(self: Any, model: Any, rollout_step: int, replica: int = 0, phase: str = "rollout") -> Any:
    event = _apply(self, model, rollout_step, replica, phase)
    if (phase, rollout_step) == UNTOLD:
        weight = model.model.norm.weight
        _untold.append((weight, weight.clone()))
        weight.add_(0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    if (phase, rollout_step) == OVERWRITTEN:
        for weight, clean, _ in self._disturbed:
            weight.copy_(clean)
    return event


@torch.inference_mode()
def _lift_and_restore(self: Any, kept: bool = True) -> int:
    while _untold:
        weight, clean = _untold.pop()
        weight.copy_(clean)
    return _restore(self, kept)


vllm.LLM.reset_prefix_cache = _keep
rlx_aqn.Injector.apply = _apply_and_go_on
rlx_aqn.Injector.restore = _lift_and_restore
