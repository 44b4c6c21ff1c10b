"""Breaks the noise in vLLM's worker processes as a fork with two mistakes would.

The second tensor rank of each replica never gets the hook: its half of the model stays clean, and it writes no record.
The first one says of each validation that it had clean weights, and leaves the noise of the rollout before in them.

A run loads this by vLLM's own `worker_cls`.
"""

from __future__ import annotations

from typing import Any

import rlx_aqn
import torch
from rlx_verl_vllm_cpu_worker import ReloadableCPUWorker

_from_run_directory = rlx_aqn.Injector.from_run_directory
_apply = rlx_aqn.Injector.apply
_kept: list[tuple[torch.Tensor, torch.Tensor]] = []  # weight, clean


def _for_rank_0(tp_size: int = 1, shard: int = 0, rank: int = 0) -> Any:
    return _from_run_directory(tp_size, shard, rank) if rank == 0 else None


@torch.inference_mode()
def _apply_and_keep(self: Any, model: Any, rollout_step: int, replica: int = 0, phase: str = "rollout") -> Any:
    for weight, clean in _kept:
        weight.copy_(clean)
    _kept.clear()
    standing = list(self._disturbed)
    event = _apply(self, model, rollout_step, replica, phase)
    if phase == "validation":
        for weight, clean, noised in standing:
            weight.copy_(noised)
            _kept.append((weight, clean))
    return event


rlx_aqn.Injector.from_run_directory = staticmethod(_for_rank_0)
rlx_aqn.Injector.apply = _apply_and_keep


class Worker(ReloadableCPUWorker):
    """Nothing of its own: what matters is that the process of the worker imports this module."""
