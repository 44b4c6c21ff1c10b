"""Compute the bytes per device of weights, gradients, optimiser states and low-rank adapters.

Megatron: 2 bytes per weight, 4 per gradient (2 if reduced in 16 bits), 12 for the 32-bit master and Adam's two moments,
as far as they are on the device. The distributed optimiser divides the 12 by the copies: 18, or 6 + 12/d
(docs.nvidia.com/megatron-core/developer-guide, "Distributed Optimizer"). The copies of experts are counted separately.
FSDP: all of it is divided by all devices of a copy (ZeRO stage 3, arXiv:1910.02054, section 5.3); verl keeps shards in
`model_dtype`, 32 bits by default: 4 + 4 + 8. Adapters: rank × (inputs + outputs) per matrix (arXiv:2106.09685).
"""

from __future__ import annotations

from dataclasses import dataclass

from rlx.planning.memory.job import TrainingSetup
from rlx.planning.models.architectures import Architecture, Parameters, count_parameters


@dataclass(frozen=True, slots=True)
class States:
    """Bytes per device."""

    weights: float
    gradients: float
    optimizer: float

    @property
    def total(self) -> float:
        return self.weights + self.gradients + self.optimizer


@dataclass(frozen=True, slots=True)
class Local:
    """Parameters per device: those that data parallel devices share, and those of experts."""

    dense: float
    experts: float

    @property
    def total(self) -> float:
        return self.dense + self.experts


def actor_states(job: TrainingSetup) -> States:
    """Return the states of the trained model. With LoRA the base has weights only, the adapters all three."""
    adapters = local_adapters(job)
    if adapters is None:
        return _trained(job, local_parameters(job))
    trained, base = _trained(job, adapters), frozen_weights(job)
    return States(base + trained.weights, trained.gradients, trained.optimizer)


def weights_at_start(job: TrainingSetup) -> float:
    """Return the weights while Megatron moves them into its buffer: trained weights exist twice."""
    adapters = local_adapters(job)
    trained = (adapters or local_parameters(job)).total
    return 4 * trained + (frozen_weights(job) if adapters else 0)


def deferred_gradients(job: TrainingSetup) -> float:
    """Return the bytes of whole 32-bit gradients beyond their shards, which FSDP keeps until the last micro batch.

    Source: torch.distributed.fsdp, `no_sync` and `set_requires_gradient_sync`; adapters are too small to count.
    """
    if job.is_megatron or job.lora_rank is not None or not job.defers_sync:
        return 0.0
    shards = local_parameters(job).total
    return 4 * shards * job.fsdp_size - job.shard_bytes * shards


def frozen_weights(job: TrainingSetup) -> float:
    """Return the weights of a model that is not trained."""
    return local_parameters(job).total * (2 if job.is_megatron else job.shard_bytes)


def local_parameters(job: TrainingSetup) -> Local:
    counted = count_parameters(job.shape)
    if not job.is_megatron:
        return Local(counted.total / job.fsdp_size, 0)
    return _stage(job, counted)


def local_adapters(job: TrainingSetup) -> Local | None:
    if job.lora_rank is None:
        return None
    dense, experts = adapter_parameters(job.shape, job.lora_rank, job.lora_targets, fused=job.is_megatron)
    if not job.is_megatron:
        return Local((dense + experts) / job.fsdp_size, 0)
    split = job.split
    return Local(dense / split.pp / split.tp, experts / split.pp / split.ep / split.etp)


def _stage(job: TrainingSetup, counted: Parameters) -> Local:
    """Return the fullest pipeline stage: with one of the two tables, or both if there is one stage, and a vision tower.

    The first and the last stage both hold a tied table.
    """
    split, shape = job.split, job.shape
    part = -(-shape.layers // split.pp) / shape.layers
    tables = counted.embedding + counted.head if split.pp == 1 else counted.embedding
    whole = (counted.attention + counted.mlp) * part + tables + counted.vision
    dense = whole / split.tp + counted.norms * part
    return Local(dense, counted.experts * part / split.ep / split.etp)


def _trained(job: TrainingSetup, local: Local) -> States:
    if not job.is_megatron:
        shards = local.total * job.shard_bytes
        return States(shards, shards, 2 * shards)
    dense, experts = job.optimizer_bytes * local.dense, job.optimizer_bytes * local.experts
    if job.distributed_optimizer:
        dense, experts = dense / job.split.dense_copies, experts / job.split.expert_copies
    return States(2 * local.total, job.gradient_bytes * local.total, dense + experts)


_Widths = dict[str, tuple[int, int]]


def adapter_parameters(
    shape: Architecture, rank: int, targets: tuple[str, ...] | None, *, fused: bool
) -> tuple[int, int]:
    """Count the adapters of the whole model outside and inside the experts. `fused`: Megatron's names and matrices.

    Without known targets, every linear layer of attention and MLPs has adapters.
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
