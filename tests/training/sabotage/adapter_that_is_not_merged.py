"""Sends the base weights without the adapter at each sync, as a merge with a mistake would.

A run loads this in each of its processes by verl's own `actor_rollout_ref.model.external_lib`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from verl.workers.engine.fsdp.transformer_impl import FSDPEngine

_merged = FSDPEngine._merged_lora_per_tensor_param


def _base(self: Any) -> Iterator[tuple[str, Any]]:
    """Merge adapters of zeros, and put the trained ones back."""
    adapters = [weight for name, weight in self.module.named_parameters() if ".lora_B." in name]
    kept = [weight.detach().clone() for weight in adapters]
    with torch.no_grad():
        for weight in adapters:
            weight.zero_()
    yield from list(_merged(self))
    with torch.no_grad():
        for weight, trained in zip(adapters, kept, strict=True):
            weight.copy_(trained)


FSDPEngine._merged_lora_per_tensor_param = _base
