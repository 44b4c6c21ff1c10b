"""In the place of the vLLM engine: its weights come and go, and it generates with what it has."""

from __future__ import annotations

import torch

from mindspeed_rl.models.tiny import WIDTH, Tiny


def load_megatron_weights(params: dict[str, torch.Tensor], model: Tiny) -> None:
    for name, parameter in model.named_parameters():
        parameter.data = params[name]


class VLLMInferEngine:
    def __init__(self, infer_tensor_parallel_size: int) -> None:
        self.infer_tensor_parallel_size = infer_tensor_parallel_size
        self.model = Tiny()
        self.absorbed: list[torch.Tensor] = []
        self.cpu_model = {name: torch.empty_like(weight) for name, weight in self.model.named_parameters()}
        self.offload_model_weights()

    def offload_model_weights(self) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.data = self.cpu_model[name]
        self.absorbed = []

    def sync_model_weights(self, params: dict[str, torch.Tensor], load_format: str = "megatron") -> None:
        load_megatron_weights(params, self.model)
        self._process_mla()

    def _process_mla(self) -> None:
        self.absorbed = [layer.kv_b_proj.weight.clone() for layer in self.model.layers]

    @torch.no_grad()
    def generate_sequences(self, seed: int) -> float:
        prompts = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)
        return float(self.model(prompts).float().square().mean())
