"""The worker that trains and generates in one process."""

from __future__ import annotations

import torch

from mindspeed_rl.models.rollout.vllm_engine import VLLMInferEngine
from mindspeed_rl.models.tiny import Tiny
from mindspeed_rl.workers.resharding.megatron_sharding_manager import MegatronShardingManager


class ActorHybridWorkerBase:
    def __init__(self, tp_size: int = 1, first_iteration: int = 0) -> None:
        self.tp_size, self.first_iteration = tp_size, first_iteration

    def initialize(self) -> None:
        self.model = self._build_model_optimizer()
        self.inference_model = self._build_rollout()
        self.sharding_manager = MegatronShardingManager(self.inference_model, self.model)

    def get_iteration(self) -> int:
        return self.first_iteration

    def _build_model_optimizer(self) -> torch.nn.Module:
        torch.manual_seed(0)
        self.iteration = self.get_iteration()
        return Tiny()

    def _build_rollout(self) -> VLLMInferEngine:
        return VLLMInferEngine(self.tp_size)

    def generate_sequences(self) -> tuple[float, list[str]]:
        """A reward, and the names of the weights that generated and are not the trained ones."""
        self.sharding_manager.enter_infer_mode()
        reward = self.inference_model.generate_sequences(self.iteration)
        trained = dict(self.model.named_parameters())
        others = [
            name
            for name, weight in self.inference_model.model.named_parameters()
            if not torch.equal(weight, trained[name])
        ]
        self.sharding_manager.exit_infer_mode()
        return reward, others

    def update(self) -> None:
        for weight in self.model.parameters():
            weight.add_(0.01)
        self.iteration += 1
