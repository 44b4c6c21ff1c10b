"""The loop over the iterations, in the driver's task."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import ray

from mindspeed_rl.utils.loggers import Loggers


class ActorGroup:
    """The workers, called all at once."""

    def __init__(self, handlers: list[Any]) -> None:
        self.handlers = handlers

    def call(self, name: str) -> list[Any]:
        return list(ray.get([getattr(handler, name).remote() for handler in self.handlers]))

    def get_iteration(self) -> int:
        return int(self.call("get_iteration")[0])


class RayGRPOTrainer:
    def __init__(self, actor_worker: ActorGroup, train_iters: int, verifier: str) -> None:
        self.actor_worker, self.train_iters, self.verifier = actor_worker, train_iters, verifier

    def fit(self, data_iters: Iterable[Any]) -> None:
        logger = Loggers()
        iteration = self.actor_worker.get_iteration()
        logger.info(f"sync start grpo training at iteration: {iteration}/{self.train_iters} ...")
        while iteration < self.train_iters:
            generated = self.actor_worker.call("generate_sequences")
            for rank, (_, others) in enumerate(generated):
                logger.info(f"rank {rank} generated with other weights than trained: {' '.join(others) or 'none'}")
            self.actor_worker.call("update")
            reward = sum(reward for reward, _ in generated) / len(generated)
            metrics = SimpleNamespace(metric={f"{self.verifier}_rewards/mean": reward, "grpo/score/mean": reward})
            iteration += 1
            logger.info(metrics.metric, iteration, self.train_iters)
        logger.info("after grpo training is done")
