"""MindSpeed-RL's own classes around a hand-over of weights, hooked as in a run; takes the folder of its checkout.

Real: the modules of its worker, its sharding manager, its engine, its buffers and its weight loaders, imported after
`setup`; of them `_build_rollout`, `generate_sequences`, `enter_infer_mode`, `exit_infer_mode`, `sync_model_weights`,
`offload_model_weights` and the loader of Qwen2 run. Stand-ins: packages that are not installed here (vLLM, torch_npu,
Megatron and what the package imports for mathematics), Ray, Megatron's resharding between ranks, and the device.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import torch

sys.path.insert(0, str(Path(__file__).parent))
import rlx_mindspeed_rl_hook
from models import dense, weights

ABSENT = (
    *("torch_npu", "acl", "mstx", "mindspeed", "mindspeed_llm", "megatron", "apex", "vllm", "vllm_ascend", "nltk"),
    *("mathruler", "math_verify", "latex2sympy2", "latex2sympy2_extended", "word2number", "pylatexenc", "torchvision"),
    *("loguru", "jsonlines", "swanlab", "wandb", "codetiming", "tensordict", "zmq", "tensorboard", "peft", "datasets"),
)
# Their own `__init__` imports the whole project.
PASSED_OVER = ("", ".workers", ".models", ".models.rollout", ".trainer")


class Absent(types.ModuleType):
    """A package that is not installed here: imports find it, and nothing of it does anything."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *arguments: Any, **_: Any) -> Any:
        """A decorator, or something that is called for nothing."""
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else self

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        return (object,)


class AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self) -> None:
        self._names = {name for name in ABSENT if importlib.util.find_spec(name) is None}

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        here = name.partition(".")[0] in self._names
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if here else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Absent(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def prepare(checkout: Path) -> None:
    sys.path.insert(0, str(checkout))
    rlx_mindspeed_rl_hook.setup()
    sys.meta_path.append(AbsentFinder())
    for name in PASSED_OVER:
        package = types.ModuleType(f"mindspeed_rl{name}")
        package.__path__ = [str(checkout.joinpath("mindspeed_rl", *name.split(".")))]
        sys.modules[package.__name__] = package
    torch.cuda.current_device = lambda: "cpu"  # type: ignore[assignment,return-value]


def engine_of() -> Any:
    """The real engine, with a tiny Qwen2 in the place of what vLLM loads."""
    from mindspeed_rl.models.rollout.vllm_engine import VLLMInferEngine

    engine: Any = object.__new__(VLLMInferEngine)
    engine.model = dense()
    engine.model.cuda = lambda: engine.model
    engine.infer_tensor_parallel_size = engine.infer_pipeline_parallel_size = engine.infer_expert_parallel_size = 1
    engine.infer_local_num_experts, engine.hf_config = -1, engine.model.config
    engine.cpu_model = {name: torch.zeros_like(weight) for name, weight in engine.model.named_parameters()}
    engine.offload_model_weights()
    return engine


class Container:
    """In the place of Megatron's resharding: all of the trained weights, in the real buffers."""

    def __init__(self, engine: Any, trained: dict[str, torch.Tensor]) -> None:
        from mindspeed_rl.workers.resharding.memory_buffer import ModelWeightBuffer

        meta = {name: {"shape": weight.shape, "dtype": weight.dtype} for name, weight in trained.items()}
        self.trained = trained
        self.weight_buffers = [ModelWeightBuffer(engine.model, list(meta), lambda *_: meta)]

    def get_infer_params(self) -> dict[str, torch.Tensor]:
        (buffer,) = self.weight_buffers
        for name, weight in self.trained.items():
            buffer.copy_by_name(name, weight)
        return {name: buffer[name] for name in self.trained}


def worker_of(trained: dict[str, torch.Tensor]) -> Any:
    """The real worker; its engine is built by its own method, and so hooked."""
    from mindspeed_rl.workers import actor_hybrid_worker as module
    from mindspeed_rl.workers.resharding.megatron_sharding_manager import MegatronShardingManager

    Anything = Absent("anything")
    called = SimpleNamespace(remote=lambda *_, **__: None)
    module.ray = SimpleNamespace(get=lambda done: done)
    module.AutoConfig = Anything
    module.VLLMInferEngine = lambda **_: engine_of()
    module.profiler_start = module.profiler_step = module.MsProbe = Anything
    worker: Any = object.__new__(module.ActorHybridWorkerBase)
    worker.megatron_config = worker.profiler_config = Anything
    worker.generate_config = SimpleNamespace(**{**nothing_of(module, "generate_config"), "sampling_config": {}})
    worker.rl_config = SimpleNamespace(**nothing_of(module, "rl_config"))
    worker.enable_partial_rollout, worker.idx, worker.prof_iteration = False, 0, 1
    worker.td, worker.tokenizer = SimpleNamespace(update_metrics=called), SimpleNamespace(pad=0, eod=0)
    worker.inference_model = worker._build_rollout()
    manager: Any = object.__new__(MegatronShardingManager)
    manager.inference_engine, manager.train_param_offload = worker.inference_model, False
    manager.vllm_weight_container = Container(worker.inference_model, trained)
    worker.sharding_manager = manager
    return worker


def nothing_of(module: Any, section: str) -> dict[str, None]:
    """Every key that the module reads of a section, off."""
    return dict.fromkeys(re.findall(rf"self\.{section}\.(\w+)", Path(module.__file__).read_text(encoding="utf-8")))


def main(checkout: Path) -> None:
    prepare(checkout)
    trained = weights(dense())
    trained = {name: trained[name] for name, _ in dense().named_parameters()}
    worker = worker_of(trained)
    seen: list[set[str]] = []

    def nothing_to_generate(*_: Any, **__: Any) -> int:
        now = worker.inference_model.model.named_parameters()
        seen.append({name for name, weight in now if not torch.equal(weight, trained[name])})
        return 0

    worker.all_consumed = nothing_to_generate
    before = {name: weight.clone() for name, weight in trained.items()}
    for worker.iteration in range(7):
        worker.generate_sequences()
        assert all(torch.equal(trained[name], weight) for name, weight in before.items())
        assert all(not weight.any() for weight in worker.inference_model.cpu_model.values()), "nothing is written there"
    norms = {name for name in trained if "norm" in name}
    assert seen == [set(), set(), norms, norms, norms, norms, set()], seen
    print("all as it should be")


if __name__ == "__main__":
    os.environ["RANK"] = "0"
    main(Path(sys.argv[1]))
