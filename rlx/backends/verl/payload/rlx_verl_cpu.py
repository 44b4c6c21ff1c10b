"""Lets stock verl 0.9 train on a CPU: a platform, three repairs, and the rollout back-end "cpu".

Active through VERL_USE_EXTERNAL_MODULES=rlx_verl_cpu and VERL_PLATFORM=cpu: verl then imports this module in every
process of the run, while `import verl` is still under way. So nothing here imports more of verl than it patches.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed.fsdp
import verl.utils.distributed
from verl.plugin.platform import platform_manager
from verl.plugin.platform.platform_base import PlatformBase
from verl.workers.rollout import base as rollout_base
from verl.workers.rollout import replica as rollout_replica

# Where any TRL is installed, verl 0.9.1 imports a class that TRL 1 no longer has (models/transformers/monkey_patch.py).
# None in its place tells importlib that there is none.
sys.modules["trl"] = None  # type: ignore[assignment]


def _device_module() -> types.ModuleType:
    """Stand in for `torch.<device>`: memory is never measured, synchronising is never needed."""
    module = types.ModuleType("rlx_cpu_device")
    streams = {name: getattr(torch.cpu, name) for name in ("Stream", "current_stream", "stream")}
    memory = ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved", "device_count")
    actions = ("empty_cache", "synchronize", "set_device", "reset_peak_memory_stats", "ipc_collect")
    seeds = dict.fromkeys(("manual_seed", "manual_seed_all"), torch.manual_seed)
    module.__dict__.update(streams, **seeds)
    module.__dict__.update({name: lambda *_, **__: 0 for name in memory})
    module.__dict__.update({name: lambda *_, **__: None for name in actions})
    module.__dict__.update(
        is_available=lambda: False,
        current_device=lambda: torch.device("cpu"),
        get_device_name=lambda *_: "CPU",
        get_rng_state=torch.get_rng_state,
        set_rng_state=torch.set_rng_state,
        mem_get_info=lambda *_: (0, 0),
    )
    return module


@platform_manager.PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):
    """verl's view of a machine without accelerator."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _device_module()

    def is_available(self) -> bool:
        return True

    def current_device(self) -> torch.device:
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        pass

    def synchronize(self, device_index: int | None = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def set_allocator_settings(self, settings: str) -> None:
        pass

    def empty_cache(self) -> None:
        pass

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        pass

    def profiler_stop(self) -> None:
        pass

    def ray_resource_name(self) -> str:
        # Ray schedules workers on "GPU"; logical ones come from ray_init.num_gpus and need no hardware.
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None


class _UnpinnedOffload(torch.distributed.fsdp.CPUOffloadPolicy):
    """verl's reference policy asks for pinned memory, which needs an accelerator."""

    def __init__(self, pin_memory: bool = False) -> None:
        super().__init__(pin_memory=False)


_initialize_process_group = verl.utils.distributed.initialize_global_process_group_ray


def _initialize_gloo(timeout_second: float | None = None, backend: str | None = None) -> None:
    # verl would ask for "cpu:gloo,cpu:gloo", which torch refuses as a duplicate.
    _initialize_process_group(timeout_second=timeout_second, backend="cpu:gloo")


def _replica_class() -> Any:
    from rlx_verl_cpu_rollout import CPUReplica

    return CPUReplica


def install() -> None:
    """Register the platform and the rollout, and put the two repairs in place."""
    # verl registers its FSDP engine for cuda and npu only; the class itself runs on any device.
    os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")
    platform_manager.set_platform(PlatformCPU())
    torch.distributed.fsdp.CPUOffloadPolicy = _UnpinnedOffload
    verl.utils.distributed.initialize_global_process_group_ray = _initialize_gloo
    rollout_base._ROLLOUT_REGISTRY[("cpu", "async")] = "rlx_verl_cpu_rollout.ServerAdapter"
    rollout_replica.RolloutReplicaRegistry.register("cpu", _replica_class)


install()
