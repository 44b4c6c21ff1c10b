"""Name the norm layers of a model, and choose those that take noise as the payload will.

Names are those of Hugging Face's and vLLM's modules: transformers `models/{llama,qwen2,qwen3,qwen2_moe,qwen3_moe,
deepseek_v3}/modeling_*.py`, vLLM `model_executor/models/` of the same names. Which of them take noise follows
rlx/payload/rlx_aqn_layers.py; tests/planning/test_norm_layers.py holds both against each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rlx.planning.models.architectures import Architecture

if TYPE_CHECKING:
    from rlx.recipe.schema import Aqn

_MIXTURE_TARGET = "post_attention_layernorm"


def norm_layers(shape: Architecture) -> dict[str, int]:
    """Every RMSNorm of the model by its module name, with the number of its weights."""
    layers = {f"model.layers.{index}.{name}": size for index in range(shape.layers) for name, size in _block(shape)}
    return {**layers, "model.norm": shape.hidden}


def _block(shape: Architecture) -> Iterator[tuple[str, int]]:
    if shape.qk_norm:
        yield from (("self_attn.q_norm", shape.head_dim), ("self_attn.k_norm", shape.head_dim))
    if shape.latent:
        if shape.latent.q_rank is not None:
            yield "self_attn.q_a_layernorm", shape.latent.q_rank
        yield "self_attn.kv_a_layernorm", shape.latent.kv_rank
    yield from (("input_layernorm", shape.hidden), (_MIXTURE_TARGET, shape.hidden))


def noisy_layers(aqn: Aqn, shape: Architecture) -> dict[str, int]:
    """The norm layers that `aqn.targets` and `aqn.exclude` choose, with the number of their weights."""
    every = aqn.targets == "auto" and shape.experts is None
    patterns = (_MIXTURE_TARGET,) if aqn.targets == "auto" else aqn.targets
    return {
        name: size
        for name, size in norm_layers(shape).items()
        if (every or _has(name, patterns)) and not _has(name, aqn.exclude)
    }


def _has(name: str, patterns: tuple[str, ...]) -> bool:
    return any(pattern in name for pattern in patterns)


def factor_of(factors: Mapping[str, float], name: str) -> float:
    """Compute the factor on sigma for the layer of that name: of all patterns that match, as the payload does."""
    factor = 1.0
    for pattern, own in factors.items():
        factor *= own if pattern in name else 1.0
    return factor
