"""Hands the trained weights to the engine, in buffers of their own."""

from __future__ import annotations

import torch

from mindspeed_rl.models.rollout.vllm_engine import VLLMInferEngine


class MegatronShardingManager:
    def __init__(self, inference_engine: VLLMInferEngine, megatron_model: torch.nn.Module) -> None:
        self.inference_engine, self.train_model = inference_engine, megatron_model
        self.buffers: dict[str, torch.Tensor] | None = None
        self.inference_engine.offload_model_weights()

    def enter_infer_mode(self) -> None:
        trained = dict(self.train_model.named_parameters())
        if self.buffers is None:
            self.buffers = {name: torch.zeros_like(weight) for name, weight in trained.items()}
        for name, buffer in self.buffers.items():
            buffer.copy_(trained[name])
        infer_params = dict(self.buffers)
        self.inference_engine.sync_model_weights(infer_params, load_format="megatron")

    def exit_infer_mode(self) -> None:
        self.inference_engine.offload_model_weights()
        self.buffers = None
