"""vLLM's worker on a CPU that says which weights its norm layers have."""

from __future__ import annotations

import hashlib

import old_verl_on_cpu
import torch
from rlx_verl_vllm_cpu_worker import ReloadableCPUWorker

old_verl_on_cpu.install_in_engine()


class ExtensionWorker(ReloadableCPUWorker):
    def norm_digest(self) -> str:
        model, total = self.model_runner.get_model(), hashlib.sha256()
        for name, weight in sorted(model.named_parameters()):
            if "norm" in name:
                total.update(name.encode() + weight.detach().view(torch.uint8).numpy().tobytes())
        return total.hexdigest()
