"""Estimate how the inference engine uses its share of a device: weights, work space, KV cache.

vLLM gives the KV cache what remains of `gpu_memory_utilization` × capacity after weights and a profiling run
(docs.vllm.ai, "Conserving Memory"; arXiv:2309.06180). It sleeps while the model trains (docs.vllm.ai, "Sleep Mode").
"""

from __future__ import annotations

from dataclasses import dataclass

from rlx.planning.memory.job import GIB, Job
from rlx.planning.models.architectures import Architecture
from rlx.planning.models.parameters import count_parameters


@dataclass(frozen=True, slots=True)
class Cache:
    """Bytes a device; `token` is one token's part of the cache, `sequence` the longest sequence in tokens."""

    pool: float
    weights: float
    work: float
    token: float
    sequence: int

    @property
    def room(self) -> float:
        """The bytes for the KV cache; negative where not even the weights fit."""
        return self.pool - self.weights - self.work

    @property
    def sequences(self) -> int:
        """The number of longest sequences that the cache holds at once."""
        return max(0, int(self.room / (self.token * self.sequence)))


def cache_of(job: Job) -> Cache:
    return Cache(
        pool=job.rollout.fraction * job.device.capacity * GIB,
        weights=rollout_weights(job),
        work=_work(job),
        token=token_bytes(job.shape, job.rollout.tp) * job.rollout.dtype_bytes,
        sequence=job.rollout.sequence,
    )


def rollout_weights(job: Job) -> float:
    counted, rollout = count_parameters(job.shape), job.rollout
    experts = counted.experts / max(rollout.ep, rollout.tp)
    return ((counted.total - counted.experts) / rollout.tp + experts) * rollout.dtype_bytes


def token_bytes(shape: Architecture, tp: int) -> float:
    """Values a token and device: keys and values of every layer; a head is copied where there are fewer than devices.

    Latent attention keeps the latent and the rotary part, whole on every device (arXiv:2405.04434, section 2.1.3).
    """
    if shape.latent is not None:
        return shape.layers * (shape.latent.kv_rank + shape.latent.rope_dim)
    return shape.layers * 2 * shape.head_dim * max(1.0, shape.kv_heads / tp)


def _work(job: Job) -> float:
    """The profiling run: the widest point of a layer over a full batch, and 32-bit logits of every sequence."""
    shape, rollout = job.shape, job.rollout
    widest = 3 * shape.mlp_hidden / rollout.tp if shape.dense_layers else 0.0
    if shape.experts is not None:
        experts = shape.experts
        routed = experts.active * (3 * experts.hidden / rollout.tp + shape.hidden)
        widest = max(widest, routed + 3 * experts.shared_hidden / rollout.tp)
    values = 2 * shape.hidden + max(widest, shape.heads * shape.head_dim * 4 / rollout.tp)
    return rollout.batch * values * rollout.dtype_bytes + rollout.sequences * shape.vocab * 4
