"""Record in stock verl 0.8.0 and 0.9.1 that its weights move, and that vLLM receives them: the hooks of rlx_weights.

Active through VERL_USE_EXTERNAL_MODULES=rlx_verl_weights: verl imports this module in every process of the run. The
CPU rollout of rlx calls rlx_weights by itself. What is not as it was is left alone, and written down: a training is
never ended by this.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import Any

from rlx_aqn_events import Process
from rlx_aqn_hook import HookPoint, PatchingFinder, check
from rlx_weights import Recorder, guarded, is_on, unable

POINTS = (
    HookPoint("engine", "verl.workers.engine.fsdp.transformer_impl", "FSDPEngine", "optimizer_step", ("self",),
              "self.optimizer.step()"),
    HookPoint("worker", "verl.workers.engine_workers", "ActorRolloutRefWorker", "update_weights",
              ("self", "global_steps", "mode"), "self.actor.engine.get_per_tensor_param("),
    HookPoint("vllm", "verl.workers.rollout.vllm_rollout.utils", "vLLMColocateWorkerExtension",
              "update_weights_from_ipc",
              ("self", "peft_config", "base_sync_done"), "self.model_runner.model"),
)  # fmt: skip


def hook_engine(cls: Any) -> None:
    """verl's engine of FSDP: count what the optimizer was asked to do."""
    step = cls.optimizer_step

    @functools.wraps(step)
    def optimizer_step(self: Any, *arguments: Any, **options: Any) -> Any:
        norm = step(self, *arguments, **options)
        guarded(lambda: _of_trainer(self).updated(_rate(self.optimizer), norm))
        return norm

    cls.optimizer_step = optimizer_step


def hook_worker(cls: Any) -> None:
    """verl's worker that trains: digest its weights as it is about to send them."""
    sync = cls.update_weights

    @functools.wraps(sync)
    async def update_weights(self: Any, global_steps: int | None = None, *arguments: Any, **options: Any) -> Any:
        guarded(lambda: _of_trainer(self.actor.engine).synced(self.actor.engine.module, global_steps))
        return await sync(self, global_steps, *arguments, **options)

    cls.update_weights = update_weights


def hook_vllm(cls: Any) -> None:
    """verl's extension of vLLM's worker: digest what it has received, before anything is added to it."""
    for name in ("update_weights_from_ipc", "update_verl_delta_weights"):
        if hasattr(cls, name):
            setattr(cls, name, _recorded(getattr(cls, name)))


def _recorded(sync: Any) -> Any:
    @functools.wraps(sync)
    def recorded(self: Any, *arguments: Any, **options: Any) -> Any:
        done = sync(self, *arguments, **options)
        guarded(lambda: _of_engine(self).synced(_model_of(self)))
        return done

    return recorded


def _of_trainer(engine: Any) -> Recorder:
    if not hasattr(engine, "_rlx_weights"):
        engine._rlx_weights = Recorder("trained", Process(rank=int(os.environ.get("RANK") or 0), node=_node()))
    recorder: Recorder = engine._rlx_weights
    return recorder


def _of_engine(worker: Any) -> Recorder:
    if not hasattr(worker, "_rlx_weights"):
        parallel = worker.model_runner.vllm_config.parallel_config
        shard = getattr(parallel, "data_parallel_index", getattr(parallel, "data_parallel_rank", 0))
        rank = getattr(worker, "rank", 0) % parallel.tensor_parallel_size
        worker._rlx_weights = Recorder("served", Process(shard=shard, rank=rank, node=_node()))
    recorder: Recorder = worker._rlx_weights
    return recorder


def _model_of(worker: Any) -> Any:
    runner = worker.model_runner
    return runner.get_model() if hasattr(runner, "get_model") else runner.model


def _rate(optimizer: Any) -> float:
    return max((float(group["lr"]) for group in optimizer.param_groups), default=0.0)


def _node() -> int:
    return int(os.environ.get("RLX_NODE") or 0)


def install(verl: Path) -> None:
    """Arrange for verl's classes to be changed, or write down why they are not."""
    try:
        points = check(verl, POINTS, "use verl 0.8.0 or 0.9.1 unchanged", "records of the weights")
    except ValueError as problem:
        why = str(problem)
        guarded(lambda: unable(why))
        return
    finder = PatchingFinder.of(points, {"engine": hook_engine, "worker": hook_worker, "vllm": hook_vllm})
    sys.meta_path.insert(0, finder)
    for name in {point.module for point in points} & sys.modules.keys():
        finder.patch(name, sys.modules[name])


if "verl" in sys.modules and is_on():
    install(Path(sys.modules["verl"].__path__[0]))
