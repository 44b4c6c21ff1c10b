"""Tiny models of both kinds, as transformers builds them, and what changed in one."""

from __future__ import annotations

import copy

import torch

TINY = {
    "vocab_size": 40, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "max_position_embeddings": 32,
}  # fmt: skip


def dense() -> torch.nn.Module:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(Qwen2Config(**TINY, tie_word_embeddings=True))


def moe() -> torch.nn.Module:
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    return Qwen3MoeForCausalLM(
        Qwen3MoeConfig(**TINY, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=8, head_dim=8)
    )


def weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return copy.deepcopy(model.state_dict())


def moved(model: torch.nn.Module, clean: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, weight in model.state_dict().items() if not torch.equal(weight, clean[name])}
