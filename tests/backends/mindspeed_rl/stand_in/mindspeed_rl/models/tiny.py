"""A model of two blocks with norms, as vLLM names them; `kv_b_proj` stands for latent attention."""

from __future__ import annotations

import torch
from torch import nn

WIDTH = 16


class RMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH, dtype=torch.bfloat16), requires_grad=False)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values * torch.rsqrt(values.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(), RMSNorm()
        self.kv_b_proj = nn.Linear(WIDTH, WIDTH, bias=False, dtype=torch.bfloat16).requires_grad_(requires_grad=False)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values + self.kv_b_proj(self.post_attention_layernorm(self.input_layernorm(values)))


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])
        self.norm = RMSNorm()

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            values = layer(values)
        return self.norm(values)
