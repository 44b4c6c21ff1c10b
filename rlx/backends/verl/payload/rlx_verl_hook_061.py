"""verl 0.6.1 with vLLM: the engine lives in the trainer's worker, and weights are synced before every generation.

The trainer's process knows what is about to be generated, the worker syncs the weights for it. They share a file in the
attempt's directory, so that this works on one node only (RLX226).
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

from rlx_aqn import Injector
from rlx_aqn_settings import refusal


def _announcement() -> Path:
    return Path(os.environ["RLX_ATTEMPT_DIR"], "aqn-serves.json")


def hook_loop(cls: Any) -> None:
    """Say what is generated next, before the engine wakes up and takes weights for it."""
    generate = cls.generate_sequences

    @functools.wraps(generate)
    def generate_sequences(self: Any, prompts: Any) -> Any:
        if not self.config.actor_rollout_ref.rollout.free_cache_engine:
            what = "aqn: with rollout.free_cache_engine false verl 0.6.1 syncs no weights"
            raise refusal("RLX641", what, "leave actor_rollout_ref.rollout.free_cache_engine at true")
        phase = "validation" if prompts.meta_info.get("validate") else "rollout"
        _announce(phase, prompts.meta_info["global_steps"])
        return generate(self, prompts)

    cls.generate_sequences = generate_sequences


def _announce(phase: str, step: int) -> None:
    path = _announcement()
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    scratch.write_text(json.dumps([phase, step]), encoding="utf-8")
    scratch.replace(path)


def hook_rollout(cls: Any) -> None:
    """Clean weights before the sync, the noise of what was announced after it."""
    sync = cls.update_weights

    @functools.wraps(sync)
    async def update_weights(self: Any, weights: Any, **options: Any) -> None:
        injector = _injector_of(self)
        injector.restore(kept=False)  # the engine slept, and gave its weights away
        await sync(self, weights, **options)
        phase, step = json.loads(_announcement().read_text(encoding="utf-8"))
        injector.apply(self.inference_engine.worker.model_runner.model, step, _replica(self), phase)

    cls.update_weights = update_weights


def _injector_of(rollout: Any) -> Injector:
    injector: Injector | None = getattr(rollout, "_rlx_injector", None)
    if injector is None:
        size = rollout.config.tensor_model_parallel_size
        place = int(os.environ["RANK"]) % _replica_size(rollout)
        shard = place // (_replica_size(rollout) // rollout.config.data_parallel_size)
        injector = rollout._rlx_injector = Injector.from_run_directory(size, shard, place % size)
    assert injector is not None  # the hooks are there only where aqn.json is
    return injector


def _replica(rollout: Any) -> int:
    """Ranks that hold parts of one model are neighbours."""
    return int(os.environ["RANK"]) // _replica_size(rollout)


def _replica_size(rollout: Any) -> int:
    config = rollout.config
    size: int = config.tensor_model_parallel_size * config.data_parallel_size * config.pipeline_model_parallel_size
    return size
