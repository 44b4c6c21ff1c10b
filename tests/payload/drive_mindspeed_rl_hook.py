"""A worker process of a run, on the stand-in for MindSpeed-RL; see test_mindspeed_rl_hook.py. Takes names of scenarios.

Ray would call `setup` before anything is imported. Every line of output is a failure's, or says that all is well.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rlx_mindspeed_rl_hook
import torch


@contextmanager
def refused(words: str) -> Iterator[None]:
    try:
        yield
    except ValueError as problem:
        assert words in str(problem), problem
    else:
        raise AssertionError(f"nobody refused: {words}")


def worker_of(first_iteration: int = 0, tp_size: int = 1) -> Any:
    from mindspeed_rl.workers.actor_hybrid_worker import ActorHybridWorkerBase

    worker = ActorHybridWorkerBase(tp_size, first_iteration)
    worker.initialize()
    return worker


def weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in other)


def iterations() -> None:
    """Noise while it generates; trained weights, and the buffers that go, never carry any."""
    worker, reference = worker_of(), worker_of()
    for step in range(1, 8):
        assert equal(weights(worker.model), weights(reference.model))
        worker.sharding_manager.enter_infer_mode()
        disturbed = {name for name, weight in weights(worker.inference_model.model).items()
                     if not torch.equal(weight, weights(worker.model)[name])}  # fmt: skip
        assert bool(disturbed) == (3 <= step <= 6) and all("norm" in name for name in disturbed), (step, disturbed)
        buffers = dict(worker.sharding_manager.buffers)
        worker.sharding_manager.exit_infer_mode()
        assert equal(buffers, weights(worker.model)), "put back, bit by bit"
        worker.update()
        reference.update()


def several_syncs() -> None:
    """A second sync in an iteration, even one into the same buffers, has the same noise, once."""
    worker = worker_of(first_iteration=3)
    worker.sharding_manager.enter_infer_mode()
    first = weights(worker.inference_model.model)
    assert not equal(first, weights(worker.model))
    worker.sharding_manager.enter_infer_mode()
    assert equal(weights(worker.inference_model.model), first)
    worker.sharding_manager.exit_infer_mode()
    worker.sharding_manager.enter_infer_mode()
    assert equal(weights(worker.inference_model.model), first)


def partial_sync() -> None:
    """Syncs that bring some weights only: those they leave alone keep no noise, however often."""
    engine = worker_of(first_iteration=3).inference_model
    buffers = {name: torch.full_like(weight, 2) for name, weight in engine.model.named_parameters()}
    clean = {name: buffer.clone() for name, buffer in buffers.items()}
    for _ in range(100):
        buffers["norm.weight"].fill_(3)
        engine.sync_model_weights(buffers)
    engine.offload_model_weights()
    assert equal(buffers, {**clean, "norm.weight": torch.full_like(clean["norm.weight"], 3)})


def latent() -> None:
    """What latent attention computes from the weights is computed from the noisy ones; linear layers of tp 1."""
    worker = worker_of(first_iteration=3)
    worker.sharding_manager.enter_infer_mode()
    for layer, absorbed in zip(worker.inference_model.model.layers, worker.inference_model.absorbed, strict=True):
        assert torch.equal(layer.kv_b_proj.weight, absorbed)
    assert not torch.equal(worker.model.layers[0].kv_b_proj.weight, worker.inference_model.absorbed[0])
    with refused("RLX642"):
        worker_of(first_iteration=3, tp_size=2).sharding_manager.enter_infer_mode()


def engine_alone() -> None:
    from mindspeed_rl.models.rollout.vllm_engine import VLLMInferEngine

    worker, engine = worker_of(), VLLMInferEngine(1)
    with refused("RLX641 aqn: weights were synced into an engine that belongs to no worker"):
        engine.sync_model_weights(weights(worker.model))


def replicas() -> None:
    """Ranks 2 and 3 are one engine over two devices, and draw the same noise."""
    for rank in "23":
        os.environ["RANK"] = rank
        worker_of(first_iteration=3, tp_size=2).sharding_manager.enter_infer_mode()


SCENARIOS: dict[str, Callable[[], None]] = {
    "iterations": iterations,
    "several-syncs": several_syncs,
    "partial-sync": partial_sync,
    "latent": latent,
    "engine-alone": engine_alone,
    "replicas": replicas,
}

if __name__ == "__main__":
    rlx_mindspeed_rl_hook.setup()
    for scenario in sys.argv[1:]:
        os.environ["RLX_ATTEMPT_DIR"] = str(Path(os.environ["RLX_RUN_DIR"], scenario))
        settings = Path(os.environ["RLX_RUN_DIR"], "payload/aqn.json")
        plain = {**json.loads(settings.read_text(encoding="utf-8")), "layer_types": ["rmsnorm"]}
        settings.write_text(
            json.dumps({**plain, "layer_types": ["rmsnorm", "linear"]} if scenario == "latent" else plain),
            encoding="utf-8",
        )
        os.environ["RANK"] = "0"
        SCENARIOS[scenario]()
        print(f"{scenario}: all as it should be")
