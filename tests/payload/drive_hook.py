"""A process of a run, as far as it goes without vLLM and accelerators: see test_verl_hook.py. Takes names of scenarios.

Stand-ins: Ray (calls are made at once), the transfer of weights, and vLLM's weight loader with a tiny model behind it.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import logging
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from models import dense, weights

VLLM = "verl.workers.rollout.vllm_rollout"
ONLY_WATCHES = (
    json.loads(Path(os.environ["RLX_RUN_DIR"], "payload/aqn.json").read_text(encoding="utf-8"))["sigma_start"] == 0
)


class Reached(Exception):
    """verl's own code came as far as it can here."""


def class_of(module: str, name: str) -> type:
    """The class as it stands in the source of a module that cannot be imported here, with stand-ins around it."""
    file = next(Path(folder, f"{module.replace('.', '/')}.py") for folder in sys.path if Path(folder, "verl").is_dir())
    body = [
        node
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == name
    ]
    body[0].bases, body[0].decorator_list = [], []
    future = ast.parse("from __future__ import annotations").body
    names = {
        "torch": torch, "logger": logging.getLogger(), "asdict": dict, "TensorLoRARequest": SimpleNamespace,
        "VLLM_LORA_NAME": "", "VLLM_LORA_INT_ID": 1, "VLLM_LORA_PATH": "", "VLLM_SLEEP_LEVEL": 1,
        "is_fp8_model": lambda *_: False, "is_quantized_model": lambda *_: False,
        "patch_vllm_moe_model_weight_loader": lambda *_: None, "resolve_weight_name": lambda _, name, __: name,
        "split_buffer_updates": lambda _, updates: (updates, [], {}), "apply_buffer_updates": lambda *_, **__: 0,
    }  # fmt: skip
    exec(compile(ast.Module(future + body, []), str(file), "exec"), names)
    return names[name]  # type: ignore[return-value]


def stand_in(module: str, **names: object) -> None:
    sys.modules[module] = types.ModuleType(module)
    sys.modules[module].__dict__.update(names)


class Engine:
    """The weights that generate, and what reaches them. `trained` are those of the trainer, of its latest step."""

    def __init__(self, lora: bool) -> None:
        self.lora = lora
        self.model = dense()
        self.model.load_weights = lambda updates: self.model.load_state_dict(dict(updates), strict=False)
        self.base = weights(self.model)
        self.trained = self.base
        self.adapters: dict[str, torch.Tensor] = {}
        self.forgotten = self.received = 0

    def train(self, step: int) -> None:
        if not self.lora:
            self.trained = {name: weight + 0.01 * step for name, weight in self.base.items()}

    def check(self, noisy: bool) -> None:
        """Norms carry noise or none, and all other weights are those of the trainer, bit by bit."""
        noisy = noisy and not ONLY_WATCHES
        for name, weight in self.model.state_dict().items():
            assert torch.equal(weight, self.trained[name]) != (noisy and "norm" in name), (name, noisy)

    def remove_lora(self, _: int) -> None:
        self.adapters = {}

    def add_lora(self, request: Any) -> None:
        self.adapters = request.lora_tensors


class Remote:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def remote(self, *arguments: Any, **options: Any) -> Any:
        async def called() -> Any:
            return self._function(*arguments, **options)

        return called()


def worker_of(engine: Engine) -> Any:
    from rlx_verl_hook_sync import hook_worker

    extension = class_of(f"{VLLM}.utils", "vLLMColocateWorkerExtension")
    hook_worker(extension)
    worker = object.__new__(extension)
    # Rank 1 of 2 in the second shard, in an engine that keeps its weights.
    parallel = SimpleNamespace(tensor_parallel_size=2, data_parallel_rank=0, data_parallel_index=1)
    awake = SimpleNamespace(enable_sleep_mode=False)
    config = SimpleNamespace(parallel_config=parallel, speculative_config=None, model_config=awake)
    worker.rank = 1
    worker.model_runner = SimpleNamespace(model=engine.model, vllm_config=config)
    worker.device, worker._is_qat_model, worker._is_modelopt_qat = torch.device("cpu"), False, False
    worker._get_zmq_handle, worker.remove_lora, worker.add_lora = lambda: "", engine.remove_lora, engine.add_lora
    stand_in("vllm.platforms", current_platform=SimpleNamespace(device_type="cpu"))
    stand_in("vllm.model_executor.model_loader.utils", process_weights_after_loading=lambda *_: None)
    stand_in(f"{VLLM}.bucketed_weight_transfer", BucketedWeightReceiver=receiver(engine, worker))
    return worker


def receiver(engine: Engine, worker: Any) -> type:
    class BucketedWeightReceiver:
        def __init__(self, **_: Any) -> None:
            pass

        def receive_weights(self, on_bucket_received: Callable[..., None]) -> None:
            engine.received += 1
            updates = [("adapter", torch.ones(2))] if worker.brings_adapters else list(engine.trained.items())
            last = (True,) if len(inspect.signature(on_bucket_received).parameters) == 2 else ()
            on_bucket_received(updates, *last)

    return BucketedWeightReceiver


class Group:
    """The trainer's workers: they send the weights, or the base once and adapters each time."""

    def __init__(self, engine: Engine, worker: Any) -> None:
        self._engine, self._worker, self._base_sent = engine, worker, False

    def update_weights(self, **_: Any) -> None:
        config = {"r": 8} if self._engine.lora else None
        if not (self._engine.lora and self._base_sent):
            self._sync(config, adapters=False)
        if self._engine.lora:
            self._sync(config, adapters=True)
            assert self._engine.adapters
        self._base_sent = True

    def _sync(self, config: Any, adapters: bool) -> None:
        self._worker.brings_adapters = adapters
        self._worker.update_weights_from_ipc(peft_config=config, base_sync_done=adapters)


def manager_of(engine: Engine, worker: Any) -> Any:
    """verl's own CheckpointEngineManager, hooked when it was imported."""
    from verl.checkpoint_engine import base

    base.ray = SimpleNamespace(get=lambda done: done)
    call = Remote(lambda method, args: getattr(worker, method)(*args))
    server = SimpleNamespace(collective_rpc=call, clear_kv_cache=Remote(lambda: forget(engine)))
    replica = SimpleNamespace(replica_rank=0, servers=[server])
    config = SimpleNamespace(backend="naive", custom_backend_module=None)
    return base.CheckpointEngineManager(config, Group(engine, worker), [replica])


def forget(engine: Engine) -> None:
    engine.forgotten += 1


def trainers(engine: Engine, manager: Any) -> tuple[Any, Any]:
    """One whose validation only looks at the weights, and verl's own, whose validation stops at the first batch."""
    from rlx_verl_hook_sync import hook_trainer
    from verl.trainer.ppo.ray_trainer import RayPPOTrainer

    class Trainer:
        checkpoint_manager, global_steps = manager, 0

        def _validate(self) -> str:
            engine.check(noisy=False)
            manager.update_weights(self.global_steps)  # as for a reward model on the same devices
            engine.check(noisy=False)
            return "metrics"

    def batches() -> Iterator[None]:
        engine.check(noisy=False)
        raise Reached
        yield

    hook_trainer(Trainer)
    real = object.__new__(RayPPOTrainer)
    real.checkpoint_manager, real.global_steps, real.val_dataloader = manager, 3, batches()
    return Trainer(), real


def two_steps(lora: bool) -> None:
    engine = Engine(lora)
    manager = manager_of(engine, worker_of(engine))
    trainer, real = trainers(engine, manager)
    for step in range(4):
        engine.train(step)
        manager.update_weights(step)
        engine.check(noisy=step >= 2)
        if step % 2 == 0:
            trainer.global_steps = step
            assert trainer._validate() == "metrics"
            engine.check(noisy=step >= 2)
    assert engine.forgotten == 4 + 2 * 3
    try:
        real._validate()
    except Reached:
        print("all as it should be")


def dapo() -> None:
    """The DAPO recipe's own loop: each step generates several times, and its syncs name no step."""
    from verl.trainer.ppo.ray_trainer import RayPPOTrainer

    engine = Engine(lora=False)
    manager = manager_of(engine, worker_of(engine))

    class RayDAPOTrainer(RayPPOTrainer):
        def __init__(self) -> None:
            self.global_steps = 0

    def init_workers(self: Any) -> None:
        self.checkpoint_manager = manager

    from rlx_verl_hook_sync import _known_to_its_manager

    trainer = RayDAPOTrainer()
    assert RayPPOTrainer.init_workers.__wrapped__
    _known_to_its_manager(init_workers)(trainer)
    manager.update_weights()
    for step in range(1, 4):
        trainer.global_steps = step
        for _ in range(step):
            engine.check(noisy=step >= 3)
        engine.train(step)
        manager.update_weights()
    engine.check(noisy=True)
    print("all as it should be")


async def inside_a_loop() -> None:
    """A trainer that is asynchronous awaits the same method."""
    engine = Engine(lora=False)
    manager = manager_of(engine, worker_of(engine))
    await manager.update_weights(2)
    engine.check(noisy=True)
    print("all as it should be")


def untold() -> None:
    engine = Engine(lora=False)
    worker = worker_of(engine)
    manager = manager_of(engine, worker)
    worker.brings_adapters = False
    elsewhere = manager_of(engine, worker)
    elsewhere.backend = "nccl"
    for sync in (
        lambda: manager.update_weights(),
        lambda: [worker.update_weights_from_ipc() for _ in range(4)],
        lambda: elsewhere.update_weights(1),
    ):
        try:
            sync()
        except ValueError as problem:
            print(problem)
    assert engine.received == 4, "a refusal comes after the weights: whoever sends them waits for ever otherwise"


def before_each_generation(lora: bool) -> None:
    from rlx_verl_hook_061 import hook_loop, hook_rollout

    engine = Engine(lora)
    rollout_class = class_of(f"{VLLM}.vllm_rollout_spmd", "vLLMAsyncRollout")
    loop_class = class_of("verl.experimental.agent_loop.agent_loop", "AgentLoopManager")
    hook_rollout(rollout_class)
    hook_loop(loop_class)
    stand_in("verl.utils.vllm.patch", patch_vllm_moe_model_weight_loader=lambda *_: None)
    rollout, loop = object.__new__(rollout_class), object.__new__(loop_class)
    sizes = ("tensor_model_parallel_size", "data_parallel_size", "pipeline_model_parallel_size")
    rollout.config = SimpleNamespace(**dict.fromkeys(sizes, 1))
    runner = SimpleNamespace(model=engine.model)
    rollout.inference_engine = SimpleNamespace(
        worker=SimpleNamespace(model_runner=runner, remove_lora=engine.remove_lora, add_lora=engine.add_lora)
    )

    def wake_up() -> None:
        if lora:
            asyncio.run(rollout.update_weights([("adapter", torch.ones(2))], peft_config={"r": 8}, base_sync_done=True))
        else:
            asyncio.run(rollout.update_weights(iter(engine.trained.items())))
        raise Reached

    loop.wake_up = wake_up
    loop.config = SimpleNamespace(
        actor_rollout_ref=SimpleNamespace(rollout=SimpleNamespace(free_cache_engine=True)),
    )
    for validate, step in ((True, 0), (False, 1), (False, 3), (True, 3), (False, 4)):
        engine.train(step)
        try:
            loop.generate_sequences(SimpleNamespace(meta_info={"validate": validate, "global_steps": step}))
        except Reached:
            engine.check(noisy=not validate and step >= 3)
    print("all as it should be")


SCENARIOS: dict[str, Callable[[], Any]] = {
    "full": lambda: two_steps(lora=False),
    "lora": lambda: two_steps(lora=True),
    "loop": lambda: asyncio.run(inside_a_loop()),
    "dapo": dapo,
    "untold": untold,
    "061-full": lambda: before_each_generation(lora=False),
    "061-lora": lambda: before_each_generation(lora=True),
}

if __name__ == "__main__":
    for scenario in sys.argv[1:]:
        os.environ["RLX_ATTEMPT_DIR"] = str(Path(os.environ["RLX_RUN_DIR"], scenario))
        Path(os.environ["RLX_ATTEMPT_DIR"]).mkdir()
        SCENARIOS[scenario]()
