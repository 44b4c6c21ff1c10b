"""What verl 0.7.1 and 0.8.0 miss where their extension of vLLM's worker runs on a CPU with vLLM 0.27.1.

verl loads it by VERL_USE_EXTERNAL_MODULES, before anything of it asks for these.
"""

from __future__ import annotations

import rlx_verl_vllm_cpu  # noqa: F401 - the name of the distribution
import torch

for _name in ("empty_cache", "ipc_collect"):
    if not hasattr(torch.cpu, _name):
        setattr(torch.cpu, _name, lambda: None)


def install_in_engine() -> None:
    """Give vLLM a class that verl before 0.9 imports, for fp8 only, and CPU devices an id."""
    from vllm.model_executor.layers.fused_moe import layer
    from vllm.platforms.cpu import CpuPlatform

    layer.FusedMoE = getattr(layer, "FusedMoE", type("FusedMoE", (torch.nn.Module,), {}))
    CpuPlatform.get_device_uuid = classmethod(lambda cls, device_id=0: f"cpu-{device_id}")
