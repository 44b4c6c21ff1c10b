"""Weights as verl streams them for vLLM, loaded into a model of transformers: every one of them, or none."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any

import torch

_EXPERT = re.compile(r"(?P<block>.+\.experts)\.(?P<number>\d+)\.(?P<part>gate|up|down)_proj\.weight")


def load_checked(model: Any, state: dict[str, torch.Tensor]) -> None:
    """Load every weight of the model, or raise ValueError naming what is missing or unknown.

    An unknown name would otherwise leave a random weight in the rollout, such as LoRA adapters that were not merged.
    """
    missing, unexpected = model.load_state_dict(with_fused_experts(state, model.state_dict()), strict=False)
    model.tie_weights()
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    if lost := sorted({*missing} - tied):
        raise ValueError(f"the weight sync lacks {lost[:3]} ({len(lost)} weights in all)")
    if unexpected:
        raise ValueError(f"the rollout has no place for {sorted(unexpected)[:3]} ({len(unexpected)} weights in all)")


def with_fused_experts(state: dict[str, torch.Tensor], places: Container[str]) -> dict[str, torch.Tensor]:
    """Stack the weights of single experts where the model keeps them stacked: `places` are its own names.

    `experts.gate_up_proj` is (experts, 2 × width, hidden), `experts.down_proj` (experts, hidden, width): the reverse
    of verl 0.9.1, workers/engine/fsdp/utils.py, unfuse_moe_params. Raises ValueError where an expert lacks a part.
    """
    fused, blocks = {}, dict[str, dict[tuple[str, int], torch.Tensor]]()
    for name, weight in state.items():
        match = _EXPERT.fullmatch(name)
        if match and f"{match['block']}.gate_up_proj" in places:
            blocks.setdefault(match["block"], {})[match["part"], int(match["number"])] = weight
        else:
            fused[name] = weight
    for block, parts in blocks.items():
        fused |= _stacked(block, parts)
    return fused


def _stacked(block: str, parts: dict[tuple[str, int], torch.Tensor]) -> dict[str, torch.Tensor]:
    numbers = range(1 + max(number for _, number in parts))
    try:
        rows = [torch.cat([parts["gate", number], parts["up", number]]) for number in numbers]
        columns = [parts["down", number] for number in numbers]
    except KeyError as lost:
        part, number = lost.args[0]
        raise ValueError(f"the weight sync lacks {block}.{number}.{part}_proj.weight") from None
    return {f"{block}.gate_up_proj": torch.stack(rows), f"{block}.down_proj": torch.stack(columns)}
