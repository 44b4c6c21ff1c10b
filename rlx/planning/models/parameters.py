"""Count the parameters of a model, by part, from its shapes as transformers' modules lay them out."""

from __future__ import annotations

from dataclasses import dataclass

from rlx.planning.models.architectures import Architecture


@dataclass(frozen=True, slots=True)
class Parameters:
    """Numbers of parameters of the whole model. A tied output layer counts once, in `embedding`.

    `mlp` is what every token passes in the MLPs: dense layers, shared experts and routers. `active_experts` of the
    `experts` are used for one token. `vision` is the tower of a model that sees.
    """

    embedding: int
    head: int
    attention: int
    mlp: int
    experts: int
    active_experts: int
    norms: int
    vision: int = 0

    @property
    def total(self) -> int:
        return self.active + self.experts - self.active_experts

    @property
    def active(self) -> int:
        """Count for one token, the embedding included, as the published counts have it."""
        return self.embedding + self.head + self.attention + self.mlp + self.active_experts + self.norms + self.vision


def count_parameters(shape: Architecture) -> Parameters:
    table = shape.vocab * shape.hidden
    return Parameters(
        embedding=table,
        head=0 if shape.tied else table,
        attention=shape.layers * _attention(shape),
        mlp=shape.dense_layers * 3 * shape.hidden * shape.mlp_hidden + _shared(shape),
        experts=_routed(shape, shape.experts.count) if shape.experts else 0,
        active_experts=_routed(shape, shape.experts.active) if shape.experts else 0,
        norms=shape.layers * _norms(shape) + shape.hidden,
        vision=shape.vision,
    )


def _attention(shape: Architecture) -> int:
    """One layer's projections; multi-head latent attention after arXiv:2405.04434, appendix C."""
    if shape.latent is None:
        queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        bias = queries + 2 * keys if shape.qkv_bias else 0
        return shape.hidden * 2 * (queries + keys) + bias
    latent = shape.latent
    queries = shape.heads * (latent.nope_dim + latent.rope_dim)
    up = shape.heads * (latent.nope_dim + latent.value_dim)
    query = shape.hidden * queries if latent.q_rank is None else latent.q_rank * (shape.hidden + queries)
    keys = shape.hidden * (latent.kv_rank + latent.rope_dim) + latent.kv_rank * up
    return query + keys + shape.heads * latent.value_dim * shape.hidden


def _shared(shape: Architecture) -> int:
    """Routers, shared experts and their gates, in all layers."""
    if shape.experts is None:
        return 0
    experts = shape.experts
    return experts.layers * shape.hidden * (experts.count + 3 * experts.shared_hidden + experts.shared_gate)


def _routed(shape: Architecture, experts: int) -> int:
    assert shape.experts is not None
    return shape.experts.layers * experts * 3 * shape.hidden * shape.experts.hidden


def _norms(shape: Architecture) -> int:
    """One layer's: before attention and MLP, on the heads of queries and keys, on the latents."""
    heads = 2 * shape.head_dim if shape.qk_norm else 0
    latents = (shape.latent.q_rank or 0) + shape.latent.kv_rank if shape.latent else 0
    return 2 * shape.hidden + heads + latents


def largest_tensor(shape: Architecture) -> tuple[str, int]:
    """Name the largest tensor as verl hands it to the rollout, with its elements.

    Experts go one by one: Megatron's bridges export them so, and verl takes apart what transformers has put together.
    """
    tensors = {"the embedding": shape.vocab * shape.hidden, "an MLP's projection": shape.hidden * shape.mlp_hidden}
    return max(tensors.items(), key=lambda tensor: tensor[1])
