"""verl's weight sync into a worker of vLLM, real as far as it goes without vLLM and accelerators, for benchmarks.

Real are verl 0.9.1's BucketedWeightSender and BucketedWeightReceiver with shared memory between them, as on an NPU, and
`update_weights_from_ipc` of its worker. Below that a copy into the parameter stands in for vLLM's weight loader, and
keeping the tensors for its add_lora: less than they do, so that noise weighs more.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

BUCKET_MB = 512
# Qwen2.5-1.5B: 57 norms of 1,536 weights.
SHAPE = {
    "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12,
    "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True,
}  # fmt: skip
RANK = 32
AQN = {"sigma_start": 0.05, "sigma_end": 0.0005, "stages": 10, "total_steps": 100, "seed": 1}
NOISY_STEP = 50

Weights = dict[str, "Tensor"]


def prepare(folder: Path) -> None:
    """What the payload and verl read from the environment of a run."""
    (folder / "payload").mkdir()
    (folder / "payload/aqn.json").write_text(json.dumps(AQN), encoding="utf-8")
    os.environ |= {"RLX_RUN_DIR": str(folder), "RLX_ATTEMPT_DIR": str(folder)}
    os.environ |= {"VERL_USE_EXTERNAL_MODULES": "rlx_verl_cpu", "VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": "1"}


class Rollout:
    """A worker of vLLM as verl extends it, with a model of its own, and the trainer that sends it weights."""

    def __init__(self, sent: Weights, model: Any, lora: bool, folder: Path) -> None:
        from rlx_verl_hook_sync import hook_worker

        from tests.payload.drive_hook import VLLM, class_of

        self._sent, self._address = sent, f"ipc://{folder}/sync.sock"
        self._options = {"use_shm": True, "peft_config": {"r": RANK} if lora else None, "base_sync_done": lora}
        extension = class_of(f"{VLLM}.utils", "vLLMColocateWorkerExtension")
        self._plain = extension.update_weights_from_ipc
        hook_worker(extension)
        self._worker = worker_of(extension, model, self._address)

    def without(self) -> None:
        self._transfer(lambda: self._plain(self._worker, **self._options))

    def with_noise(self) -> None:
        self._transfer(lambda: self._worker.update_weights_from_ipc(**self._options))
        self.disturb()

    def disturb(self) -> None:
        self._worker.rlx_enter("rollout", NOISY_STEP, 0)

    def _transfer(self, receive: Callable[[], None]) -> None:
        sender = transfer_module().BucketedWeightSender(self._address, BUCKET_MB, use_shm=True)
        sending = threading.Thread(target=lambda: asyncio.run(sender.async_send_weights(iter(self._sent.items()))))
        sending.start()
        receive()
        sending.join()


@functools.cache
def transfer_module() -> Any:
    """The real one, without the package around it, which asks for vLLM; it is where the worker will look for it."""
    import verl

    name = "verl.workers.rollout.vllm_rollout.bucketed_weight_transfer"
    file = Path(verl.__path__[0]).parent / f"{name.replace('.', '/')}.py"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec and spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def worker_of(extension: type, model: Any, address: str) -> Any:
    import torch

    from tests.payload.drive_hook import stand_in

    parameters = dict(model.named_parameters())
    # The name hides the class from nn.Module, which would look for parameters in it.
    vars(model)["load_weights"] = lambda updates: [parameters[name].data.copy_(weight) for name, weight in updates]
    worker: Any = object.__new__(extension)
    config = SimpleNamespace(
        parallel_config=SimpleNamespace(tensor_parallel_size=1), speculative_config=None, model_config=None
    )
    worker.model_runner = SimpleNamespace(model=model, vllm_config=config)
    worker.device, worker._is_qat_model, worker._is_modelopt_qat = torch.device("cpu"), False, False
    worker._get_zmq_handle = lambda: address
    worker.remove_lora, worker.add_lora = lambda _: None, lambda request: setattr(worker, "adapters", request)
    stand_in("vllm.platforms", current_platform=SimpleNamespace(device_type="cpu"))
    stand_in("vllm.model_executor.model_loader.utils", process_weights_after_loading=lambda *_: None)
    return worker


def model_of(layers: int) -> Any:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    with torch.device("meta"):
        model = Qwen2ForCausalLM(Qwen2Config(**{**SHAPE, "num_hidden_layers": layers})).bfloat16()
    model.to_empty(device="cpu").tie_weights()
    for name, weight in model.named_parameters():
        torch.nn.init.constant_(weight, 1.0 if "norm" in name else 0.02)
    return model.requires_grad_(False)


def adapters_of(model: Any) -> Weights:
    """LoRA on every linear layer but the head."""
    import torch

    found = {}
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and "lm_head" not in name:
            rows, columns = module.weight.shape
            found[f"base_model.model.{name}.lora_A.weight"] = torch.ones(RANK, columns, dtype=torch.bfloat16)
            found[f"base_model.model.{name}.lora_B.weight"] = torch.ones(rows, RANK, dtype=torch.bfloat16)
    return found
