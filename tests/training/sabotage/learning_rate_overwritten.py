"""Overwrites the learning rate after each step of the scheduler, and logs what the optimizer holds then.

A run loads this in each of its processes by verl's own `actor_rollout_ref.model.external_lib`.
"""

from __future__ import annotations

from typing import Any

from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

RATE = 1e-4

_step = FSDPEngine.lr_scheduler_step


def _overwritten(self: Any) -> float:
    _step(self)
    for group in self.optimizer.param_groups:
        group["lr"] = RATE
    return RATE


FSDPEngine.lr_scheduler_step = _overwritten
