"""Lets verl's weight sync to vLLM do nothing in vLLM's own process: the first one arrives, no later one does.

The weights are received, and not loaded. A run loads this by vLLM's own `worker_cls`.
"""

from __future__ import annotations

from typing import Any

from rlx_verl_vllm_cpu_worker import ReloadableCPUWorker
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension

_sync = vLLMColocateWorkerExtension.update_weights_from_ipc
_load = vLLMColocateWorkerExtension._update_weights
_synced: list[bool] = []


def _keep(self: Any, *arguments: Any, **options: Any) -> None:
    if not _synced:
        _load(self, *arguments, **options)


def _count(self: Any, *arguments: Any, **options: Any) -> Any:
    done = _sync(self, *arguments, **options)
    _synced.append(True)
    return done


vLLMColocateWorkerExtension._update_weights = _keep
vLLMColocateWorkerExtension.update_weights_from_ipc = _count


class Worker(ReloadableCPUWorker):
    """Nothing of its own: what matters is that the process of the worker imports this module."""
