"""Gives the optimizer a parameter of its own, so that each of its steps leaves the model as it was.

A run loads this in each of its processes by verl's own `actor_rollout_ref.model.external_lib`.
"""

from __future__ import annotations

from typing import Any

import torch
from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

_build = FSDPEngine._build_optimizer


def _of_nothing(self: Any, module: Any) -> Any:
    rate = _build(self, module).param_groups[0]["lr"]
    return torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=rate)


FSDPEngine._build_optimizer = _of_nothing
