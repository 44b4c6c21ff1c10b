"""verl 0.7.1 to 0.9.1 with vLLM: the noise around the weight sync, told by the trainer.

The order in verl, of each step s: generate, train, sync (`CheckpointEngineManager.update_weights(s)`), validate. So
what is synced at the end of step s generates step s + 1. In the worker a sync starts from clean weights: full weights
overwrite them (hook A), LoRA adapters or a quantised base leave them as they are (hook B).
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from typing import Any

from rlx_aqn import Injector
from rlx_aqn_settings import InjectionSettings, refusal, settings_file

ROLLOUT, VALIDATION = "rollout", "validation"
# One sync of LoRA may call a worker twice: the base, then the adapters.
_MOST_UNTOLD = 3
_DAPO_TRAINER = "RayDAPOTrainer"


class WorkerNoise:
    """The noise in one process of the engine; `tp_size` processes hold parts of one model.

    `shard` and `rank` say which process of its replica this is. `sleeps`: the engine gives its weights away between
    generation and the next sync, so that what stands there before a sync says nothing.
    """

    def __init__(self, tp_size: int, shard: int = 0, rank: int = 0, sleeps: bool = False) -> None:
        self._injector = Injector.from_run_directory(tp_size, shard, rank)
        self._sleeps = sleeps
        self._untold = 0

    def before_sync(self) -> None:
        """Clean weights, bit by bit. Raises ValueError where a sync names no step."""
        self._untold += 1
        if self._untold > _MOST_UNTOLD:
            what = "aqn: weights were synced and no trainer said for which step, so that no noise was added"
            raise refusal("RLX641", what, "use a trainer that calls CheckpointEngineManager.update_weights(step)")
        if self._injector is not None:
            self._injector.restore(kept=not self._sleeps)

    def enter(self, model: Any, phase: str, step: int, replica: int) -> None:
        self._untold = 0
        if self._injector is not None:
            self._injector.apply(model, step, replica, phase)


def hook_worker(cls: Any) -> None:
    """verl's extension of vLLM's worker, which vLLM mixes into its own worker class."""
    for name in ("update_weights_from_ipc", "update_verl_delta_weights"):
        if hasattr(cls, name):
            setattr(cls, name, _from_clean(getattr(cls, name)))
    cls.rlx_enter = _enter_worker


def _from_clean(sync: Any) -> Any:
    @functools.wraps(sync)
    def from_clean(self: Any, *arguments: Any, **options: Any) -> Any:
        # The sender waits in the trainer, without a limit, for this worker to connect: receive first, then refuse.
        refused: Exception | None = None
        try:
            _noise_of(self).before_sync()
        except Exception as problem:  # noqa: BLE001 - raised below
            refused = problem
        done = sync(self, *arguments, **options)
        if refused is not None:
            raise refused
        return done

    return from_clean


def _enter_worker(self: Any, phase: str, step: int, replica: int) -> None:
    runner = self.model_runner
    # Newer engines wrap the model to record graphs.
    model = runner.get_model() if hasattr(runner, "get_model") else runner.model
    _noise_of(self).enter(model, phase, step, replica)


def _noise_of(worker: Any) -> WorkerNoise:
    noise: WorkerNoise | None = getattr(worker, "_rlx_noise", None)
    if noise is None:
        config = worker.model_runner.vllm_config
        parallel = config.parallel_config
        size = parallel.tensor_parallel_size
        # vLLM tells each engine of a dense model that it is the only shard; newer ones keep the number beside that.
        shard = getattr(parallel, "data_parallel_index", getattr(parallel, "data_parallel_rank", 0))
        sleeps = getattr(config.model_config, "enable_sleep_mode", True)
        # Of an engine's ranks, neighbours hold parts of the same layers (vLLM: parallel_state.py, all_ranks).
        noise = worker._rlx_noise = WorkerNoise(size, shard, getattr(worker, "rank", 0) % size, sleeps)
    return noise


def hook_manager(cls: Any) -> None:
    """verl's manager of the syncs, in the process of the trainer."""
    sync = inspect.unwrap(cls.update_weights)
    # verl's own decorator: its trainers call this with and without a running event loop.
    auto_await = sys.modules[cls.__module__].auto_await

    @functools.wraps(sync)
    async def update_weights(self: Any, global_steps: int | None = None) -> Any:
        if self.backend != "naive":
            what = f"aqn: with checkpoint engine {self.backend} generation goes on before the noise is there"
            raise refusal("RLX641", what, "train and generate on the same devices: trainer main_ppo, mode sync")
        done = await sync(self, global_steps)
        await _probes(self).clean()
        await _serve(self, *_served_after(self, global_steps))
        return done

    cls.update_weights = auto_await(update_weights)
    cls.rlx_serve = auto_await(_serve)


def _served_after(manager: Any, global_steps: int | None) -> tuple[str, int]:
    """Return what a sync serves. A sync inside a validation, for a reward model on the same devices, serves that."""
    phase, step = getattr(manager, "_rlx_serves", (ROLLOUT, 0))
    if phase == VALIDATION:
        return phase, step
    if global_steps is None:
        global_steps = _step_of_dapo(manager)
    if global_steps is None:
        what = "aqn: the trainer syncs weights without saying after which step"
        raise refusal("RLX641", what, "use verl's main_ppo, whose trainers do, or the DAPO recipe's main_dapo")
    return ROLLOUT, global_steps + 1


def _step_of_dapo(manager: Any) -> int | None:
    """Return the step after which the DAPO recipe's trainer syncs: it names none, and counts only afterwards.

    When another trainer counts is not known, and a step late would be noise at the wrong step.
    """
    trainer: Any = getattr(manager, "_rlx_trainer", None)
    return trainer.global_steps if type(trainer).__name__ == _DAPO_TRAINER else None


async def _serve(manager: Any, phase: str, step: int) -> None:
    """Tell every worker, then forget what the engine has cached of prompts: it was computed with other weights."""
    manager._rlx_serves = (phase, step)
    servers = [(replica.replica_rank, replica.servers[0]) for replica in manager.replicas]
    calls = [server.collective_rpc.remote("rlx_enter", args=(phase, step, rank)) for rank, server in servers]
    await asyncio.gather(*calls)
    await asyncio.gather(*(server.clear_kv_cache.remote() for _, server in servers))
    await _probes(manager).pair(phase, step)


def _probes(manager: Any) -> Any:
    from rlx_verl_hook_probe import ReplicaProbes

    if not hasattr(manager, "_rlx_probes"):
        file = settings_file()
        assert file is not None  # the hooks are there only where it is
        manager._rlx_probes = ReplicaProbes(manager.replicas, InjectionSettings.read(file))
    return manager._rlx_probes


def hook_trainer(cls: Any) -> None:
    """Validate on clean weights (or on noisy ones, if the recipe says so), and restore the noise."""
    validate = cls._validate

    @functools.wraps(validate)
    def _validate(self: Any, *arguments: Any, **options: Any) -> Any:
        self.checkpoint_manager.rlx_serve(VALIDATION, self.global_steps)
        metrics = validate(self, *arguments, **options)
        self.checkpoint_manager.rlx_serve(ROLLOUT, self.global_steps + 1)
        return metrics

    cls._validate = _validate
    if hasattr(cls, "init_workers"):
        cls.init_workers = _known_to_its_manager(cls.init_workers)


def _known_to_its_manager(init_workers: Any) -> Any:
    @functools.wraps(init_workers)
    def known(self: Any, *arguments: Any, **options: Any) -> Any:
        done = init_workers(self, *arguments, **options)
        self.checkpoint_manager._rlx_trainer = self
        return done

    return known
