"""MindSpeed-RL: the noise around the hand-over of the actor's weights to the vLLM in the same process.

An iteration of a worker: its sharding manager fills new buffers with all of the actor's weights, LoRA merged in, and
points the engine's parameters at them (`sync_model_weights`); it generates; the engine lets go of the buffers
(`offload_model_weights`); it trains, and counts the iteration. The log reports as iteration s what was generated when
s - 1 iterations were counted. DAPO may generate several times between a sync and the offload.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from rlx_aqn import Injector
from rlx_aqn_settings import refusal


class EngineNoise:
    """The noise in one process: on its engine's weights, from the sync to the offload."""

    def __init__(self, tp_size: int) -> None:
        # Ranks that hold parts of one model are neighbours.
        self._replica, rank = divmod(int(os.environ["RANK"]), tp_size)
        self._injector = Injector.from_run_directory(tp_size, rank=rank)
        self._is_due = False

    def before_sync(self) -> None:
        self._is_due = True
        self.remove()

    def add(self, engine: Any) -> None:
        """Once for each sync."""
        if self._injector is not None and self._is_due:
            self._injector.apply(engine.model, _step(engine), self._replica)
        self._is_due = False

    def remove(self) -> None:
        """Clean weights, bit by bit."""
        if self._injector is not None:
            self._injector.restore()


def hook_worker(cls: Any) -> None:
    """Register the worker that trains and generates, whose iterations its engine serves from now on."""
    build = cls._build_rollout

    @functools.wraps(build)
    def _build_rollout(self: Any) -> Any:
        engine = build(self)
        engine._rlx_worker = self
        return engine

    cls._build_rollout = _build_rollout


def hook_engine(cls: Any) -> None:
    sync, process, offload = cls.sync_model_weights, cls._process_mla, cls.offload_model_weights

    @functools.wraps(sync)
    def sync_model_weights(self: Any, *arguments: Any, **options: Any) -> Any:
        noise = _noise_of(self)
        noise.before_sync()
        done = sync(self, *arguments, **options)
        noise.add(self)
        return done

    @functools.wraps(process)
    def _process_mla(self: Any) -> Any:
        # Latent attention computes matrices from the weights just loaded, and generates with those.
        _noise_of(self).add(self)
        return process(self)

    @functools.wraps(offload)
    def offload_model_weights(self: Any) -> Any:
        # Afterwards the parameters are others, on the CPU, and the buffers with the noise are gone.
        _noise_of(self).remove()
        return offload(self)

    cls.sync_model_weights, cls._process_mla = sync_model_weights, _process_mla
    cls.offload_model_weights = offload_model_weights


def _noise_of(engine: Any) -> EngineNoise:
    noise: EngineNoise | None = getattr(engine, "_rlx_noise", None)
    if noise is None:
        noise = engine._rlx_noise = EngineNoise(engine.infer_tensor_parallel_size)
    return noise


def _step(engine: Any) -> int:
    """Return the iteration that the log will report for the next generation. Raises ValueError without a counter."""
    worker = getattr(engine, "_rlx_worker", None)
    if worker is None:
        what = "aqn: weights were synced into an engine that belongs to no worker, so that no iteration is known"
        raise refusal("RLX641", what, "use cli/train_grpo.py, train_dapo.py or train_ppo.py")
    return int(worker.iteration) + 1
