"""vLLM's CPU worker with weights that can be loaded again: `engine_kwargs.vllm.worker_cls`.

After loading, vLLM 0.27.1 packs the weight of each linear layer for oneDNN, and leaves an empty parameter without a
loader in its place (vllm/model_executor/layers/utils.py, dispatch_cpu_unquantized_gemm): the next weight sync fails.
Without oneDNN it calls torch.nn.functional.linear on the parameter itself, as on a GPU.
"""

from __future__ import annotations

import vllm._custom_ops
from vllm.v1.worker.cpu_worker import CPUWorker

vllm._custom_ops._supports_onednn = False


class ReloadableCPUWorker(CPUWorker):
    """Nothing of its own: what matters is that the process of the worker imports this module."""
