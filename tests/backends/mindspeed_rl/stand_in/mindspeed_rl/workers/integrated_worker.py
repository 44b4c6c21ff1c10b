"""All roles in one Ray actor."""

from __future__ import annotations

import ray

from mindspeed_rl.workers.actor_hybrid_worker import ActorHybridWorkerBase


@ray.remote(resources={"NPU": 0.7})
class IntegratedWorker(ActorHybridWorkerBase):
    def initialize(self) -> None:
        ActorHybridWorkerBase.initialize(self)
