"""Compute the bytes per device that a micro batch needs beyond the states: activations, logits, gathered weights.

The accounting follows Korthikanti et al. 2022 (arXiv:2205.05198, section 4.1), extended to current layers: RMSNorm,
grouped queries, SwiGLU, experts, and an attention kernel that keeps no scores (arXiv:2205.14135). Values have 16 bits.
Measurements of transformers' own modules agree (tests/planning/test_memory.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from rlx.planning.memory.job import Count, TrainingSetup
from rlx.planning.memory.states import local_parameters
from rlx.planning.models.architectures import count_parameters

# Bytes per logit. At least the output of the head and its gradient, both in 16 bits; at most also its 32-bit copy
# (arXiv:2205.05198, section 4.3), and another copy for an entropy that is not computed in pieces.
_LOGIT, _LOGIT_COPY = 2, 4


@dataclass(frozen=True, slots=True)
class MemoryRange:
    """Bytes at the typical and at the longest lengths, with the kernels that take least and most."""

    typical: float
    longest: float


@dataclass(frozen=True, slots=True)
class _Layer:
    """Bytes per token that one layer keeps for its backward pass.

    `outside` is split by sequence parallelism only, `inside` by tensor parallelism; `routed` is the copy of a token
    for each of its experts.
    """

    outside: float
    inside: float
    routed: float = 0.0


def update_activations(job: TrainingSetup) -> MemoryRange:
    """Sum what the fullest pipeline stage keeps for the backward pass of one micro batch.

    The first stage has as many micro batches in flight as there are stages: as much as all layers of one
    (arXiv:2205.05198, section 4.2.3). A layer that is recomputed keeps its input, and is then redone with those up to
    the next input.
    """
    return _by_tokens(job, job.update_tokens, kept_a_token(job))


def forward_activations(job: TrainingSetup) -> MemoryRange:
    """Return the activations of one layer in a forward pass, which keeps nothing."""
    return _by_tokens(job, job.log_prob_tokens, max(_kept(job, layer) for layer, _ in _layers(job)))


def kept_a_token(job: TrainingSetup) -> float:
    """Return the bytes that an update keeps per token."""
    layers, total, mode = _layers(job), job.shape.layers, job.recompute
    every = sum(count * _kept(job, layer) for layer, count in layers)
    if not mode.full:
        return every
    redone = total if mode.block is None else min(mode.block, total)
    inputs = 2 * job.shape.hidden / _outside(job) * redone / mode.stride
    return inputs + mode.stride * max(_kept(job, layer) for layer, _ in layers) + every * (total - redone) / total


def update_logits(job: TrainingSetup) -> MemoryRange:
    return _logits(job, job.update_tokens, 2 * _LOGIT, job.entropy_logits[1])


def forward_logits(job: TrainingSetup) -> MemoryRange:
    return _logits(job, job.log_prob_tokens, _LOGIT, job.entropy_logits[0])


def gathered_weights(job: TrainingSetup, *, trained: bool) -> MemoryRange:
    """Return the size of FSDP's whole copies in 16 bits.

    At least the largest unit, the next layer, and in an update the unit's gradient; at most both tables, two layers,
    and the gradient of the largest unit in 16 and 32 bits. Source: torch.distributed.fsdp, "Sharding Strategy"; verl
    wraps each layer.
    """
    if job.is_megatron:
        return MemoryRange(0.0, 0.0)
    counted = count_parameters(job.shape)
    tables = counted.embedding + counted.head
    layer = (local_parameters(job).total * job.fsdp_size - tables) / job.shape.layers
    unit = max(layer, counted.embedding)
    whole = trained and job.lora_rank is None
    return MemoryRange(2 * (unit + layer) + whole * 2 * unit, 2 * (tables + 2 * layer) + whole * 6 * max(layer, tables))


def _layers(job: TrainingSetup) -> list[tuple[_Layer, int]]:
    """Return the kinds of layers with the number of each."""
    shape = job.shape
    kinds = [(_dense(job), shape.dense_layers)]
    if shape.experts is not None:
        kinds.append((_mixed(job), shape.experts.layers))
    return [(layer, count) for layer, count in kinds if count]


def _dense(job: TrainingSetup) -> _Layer:
    # The MLP keeps gate, up, the activated gate and their product.
    return _Layer(_norms(job), _attention(job) + _unless(job, "mlp", 8 * job.shape.mlp_hidden))


def _mixed(job: TrainingSetup) -> _Layer:
    shape, experts = job.shape, job.shape.experts
    assert experts is not None
    # The router's scores and probabilities in 32 bits.
    outside = _norms(job) + 8 * experts.count
    shared = _unless(job, "shared_experts", 8 * experts.shared_hidden)
    inside = _attention(job) + shared + _unless(job, "moe", 8 * experts.active * experts.hidden)
    return _Layer(outside, inside, _unless(job, "moe", 4 * shape.hidden * experts.active))


def _unless(job: TrainingSetup, module: str, size: float) -> float:
    """Return the size, or 0 where selective recomputation computes the module again."""
    return 0.0 if module in job.recompute.modules else size


def _norms(job: TrainingSetup) -> int:
    """Count input and output of both norms; the output is the next module's input.

    transformers' RMSNorm computes in 32 bits and keeps its input in them, and its output before the weight as well.
    """
    return 2 * (2 + 2 if job.is_megatron else 4 + 2 + 2) * job.shape.hidden


def _attention(job: TrainingSetup) -> float:
    """Count queries, keys and values, also before their norms, and the output."""
    shape = job.shape
    if shape.latent is None:
        queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        normed = (2 if job.is_megatron else 6) * (queries + keys) if shape.qk_norm else 0
        return 2 * (2 * queries + 2 * keys) + normed
    latent = shape.latent
    heads = shape.heads * (2 * (latent.nope_dim + latent.rope_dim) + 2 * latent.value_dim)
    return 2 * (heads + (latent.q_rank or 0) + latent.kv_rank + latent.rope_dim)


def _kept(job: TrainingSetup, layer: _Layer) -> float:
    # If etp splits the experts, each of its devices processes the tokens of all of them.
    routed = layer.routed * job.split.etp / job.split.tp
    return layer.outside / _outside(job) + layer.inside / job.split.tp + routed


def _outside(job: TrainingSetup) -> int:
    return job.split.tp if job.sequence_parallel else 1


def _by_tokens(job: TrainingSetup, tokens: Count, each: float) -> MemoryRange:
    """Scale to the tokens per device, with 30 % less or more for differences between kernels."""
    least, most = tokens.typical / job.split.cp * each, tokens.longest / job.split.cp * each
    return MemoryRange(0.7 * least, 1.3 * most)


def _logits(job: TrainingSetup, tokens: Count, surely: int, entropy: bool) -> MemoryRange:
    if job.fused_logits:
        return MemoryRange(0.0, 0.0)
    each = job.shape.vocab / job.split.tp / job.split.cp
    most = surely + _LOGIT_COPY + _LOGIT_COPY * entropy
    # Only the last stage has logits, and with fewer layers it is not the fullest.
    least = 0 if job.shape.layers % job.split.pp else surely
    return MemoryRange(tokens.typical * each * least, tokens.longest * each * most)
