"""Bytes a device that a micro batch needs on top of the states: activations, logits, gathered weights.

The accounting is that of Korthikanti et al. 2022 (arXiv:2205.05198, section 4.1), done again for the layers of today:
RMSNorm, grouped queries, SwiGLU, experts, and an attention kernel that keeps no scores (arXiv:2205.14135). Values have
16 bits. What transformers' own modules keep has been measured, and agrees (tests/preflight/test_memory.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from rlx.preflight.memory.job import Job
from rlx.preflight.memory.states import local_parameters
from rlx.preflight.models.parameters import count_parameters

# The output of the head in 16 bits, its copy in 32 bits (arXiv:2205.05198, section 4.3), and its gradient.
_LOGITS_FORWARD = 2 + 4
_LOGITS_TRAINED = 2 + 4 + 2


@dataclass(frozen=True, slots=True)
class _Layer:
    """Bytes a token that one layer keeps for its backward pass.

    `outside` is split by sequence parallelism only, `inside` by tensor parallelism, `routed` is the copy of a token
    for each of its experts.
    """

    outside: float
    inside: float
    routed: float = 0.0


def update_activations(job: Job) -> float:
    """Sum what is kept for the backward pass of one micro batch, of the fullest pipeline stage.

    The first stage has as many micro batches in flight as there are stages: as much as all layers of one
    (arXiv:2205.05198, section 4.2.3). With recomputation a layer keeps its input, and one layer is redone.
    """
    layers = _layers(job)
    if not job.recompute:
        return _tokens(job, job.update_tokens) * sum(count * _kept(job, layer) for layer, count in layers)
    inputs = job.shape.layers * 2 * job.shape.hidden / _outside(job)
    return _tokens(job, job.update_tokens) * (inputs + max(_kept(job, layer) for layer, _ in layers))


def forward_activations(job: Job) -> float:
    """One layer at work; nothing is kept."""
    return _tokens(job, job.log_prob_tokens) * max(_kept(job, layer) for layer, _ in _layers(job))


def update_logits(job: Job) -> float:
    return _logits(job, job.update_tokens, _LOGITS_TRAINED)


def forward_logits(job: Job) -> float:
    return _logits(job, job.log_prob_tokens, _LOGITS_FORWARD)


def gathered_weights(job: Job, *, trained: bool) -> float:
    """FSDP's whole copies in 16 bits: tables and two layers, one of them ahead; a layer's gradient in 16 and 32 bits.

    Source: torch.distributed.fsdp, "Sharding Strategy", and verl's wrapping of each layer.
    """
    if job.is_megatron:
        return 0.0
    counted = count_parameters(job.shape)
    tables = counted.embedding + counted.head
    layer = (local_parameters(job).total * job.fsdp_size - tables) / job.shape.layers
    gradient = 6 * max(layer, tables) if trained and job.lora_rank is None else 0
    return 2 * (tables + 2 * layer) + gradient


def _layers(job: Job) -> list[tuple[_Layer, int]]:
    """The kinds of layers, and how many there are of each."""
    shape = job.shape
    kinds = [(_dense(job), shape.dense_layers)]
    if shape.experts is not None:
        kinds.append((_mixed(job), shape.experts.layers))
    return [(layer, count) for layer, count in kinds if count]


def _dense(job: Job) -> _Layer:
    # The MLP keeps gate, up, the activated gate and the product.
    return _Layer(_norms(job), _attention(job) + 8 * job.shape.mlp_hidden)


def _mixed(job: Job) -> _Layer:
    shape, experts = job.shape, job.shape.experts
    assert experts is not None
    # The router's scores and probabilities in 32 bits.
    outside = _norms(job) + 8 * experts.count
    inside = _attention(job) + 8 * experts.shared_hidden + 8 * experts.active * experts.hidden
    return _Layer(outside, inside, 4 * shape.hidden * experts.active)


def _norms(job: Job) -> int:
    """Count of both norms the input and the output, which is what follows' input.

    transformers' RMSNorm computes in 32 bits and keeps its input so, and its output before the weight as well.
    """
    return 2 * (2 + 2 if job.is_megatron else 4 + 2 + 2) * job.shape.hidden


def _attention(job: Job) -> float:
    """Queries, keys and values, those before their norms as well, and the output."""
    shape = job.shape
    if shape.latent is None:
        queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        normed = (2 if job.is_megatron else 6) * (queries + keys) if shape.qk_norm else 0
        return 2 * (2 * queries + 2 * keys) + normed
    latent = shape.latent
    heads = shape.heads * (2 * (latent.nope_dim + latent.rope_dim) + 2 * latent.value_dim)
    return 2 * (heads + (latent.q_rank or 0) + latent.kv_rank + latent.rope_dim)


def _kept(job: Job, layer: _Layer) -> float:
    # With experts split by etp, each of its devices sees the tokens of all of them.
    routed = layer.routed * job.split.etp / job.split.tp
    return layer.outside / _outside(job) + layer.inside / job.split.tp + routed


def _outside(job: Job) -> int:
    return job.split.tp if job.sequence_parallel else 1


def _tokens(job: Job, tokens: int) -> float:
    return tokens / job.split.cp


def _logits(job: Job, tokens: int, each: int) -> float:
    return 0.0 if job.fused_logits else _tokens(job, tokens) * job.shape.vocab / job.split.tp * each
