"""Parameters of low-rank adapters: rank × (inputs + outputs) of every matrix that has one (arXiv:2106.09685)."""

from __future__ import annotations

from rlx.planning.models.architectures import Architecture

_Widths = dict[str, tuple[int, int]]


def adapter_parameters(
    shape: Architecture, rank: int, targets: tuple[str, ...] | None, *, fused: bool
) -> tuple[int, int]:
    """Count the whole model's: outside and inside the experts. `fused`: Megatron's naming and matrices.

    Without targets, or with none that is known, every linear layer of attention and MLPs has adapters.
    """
    attention = _attention(shape, fused)
    names = set(targets or ()) & {*attention, *_mlp(1, 1, fused)}

    def size(widths: _Widths) -> int:
        return sum(rank * (a + b) for name, (a, b) in widths.items() if not names or name in names)

    dense = shape.layers * size(attention) + shape.dense_layers * size(_mlp(shape.hidden, shape.mlp_hidden, fused))
    if shape.experts is None:
        return dense, 0
    experts = shape.experts
    if experts.shared_hidden:
        dense += experts.layers * size(_mlp(shape.hidden, experts.shared_hidden, fused))
    return dense, experts.layers * experts.count * size(_mlp(shape.hidden, experts.hidden, fused))


def _attention(shape: Architecture, fused: bool) -> _Widths:
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    if fused:
        return {"linear_qkv": (shape.hidden, queries + 2 * keys), "linear_proj": (queries, shape.hidden)}
    return {
        "q_proj": (shape.hidden, queries),
        "k_proj": (shape.hidden, keys),
        "v_proj": (shape.hidden, keys),
        "o_proj": (queries, shape.hidden),
    }


def _mlp(hidden: int, width: int, fused: bool) -> _Widths:
    if fused:
        return {"linear_fc1": (hidden, 2 * width), "linear_fc2": (width, hidden)}
    return {"gate_proj": (hidden, width), "up_proj": (hidden, width), "down_proj": (width, hidden)}
