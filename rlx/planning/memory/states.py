"""Bytes a device for weights, gradients and optimiser states.

Megatron: 2 bytes a weight, 4 a gradient (2 where they are reduced in 16 bits), 12 for the 32-bit master and Adam's two
moments, as far as they are on the device. The 12 are divided by the copies with the distributed optimiser: 18, or
6 + 12/d (docs.nvidia.com/megatron-core/developer-guide, "Distributed Optimizer"). Experts have copies of their own.
FSDP: everything is divided by all devices of a copy (ZeRO stage 3, arXiv:1910.02054, section 5.3); verl keeps shards
in `model_dtype`, 32 bits unless set: 4 + 4 + 8.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlx.planning.memory.job import Job
from rlx.planning.memory.lora_parameters import adapter_parameters
from rlx.planning.models.parameters import Parameters, count_parameters


@dataclass(frozen=True, slots=True)
class States:
    """Bytes a device."""

    weights: float
    gradients: float
    optimizer: float

    @property
    def total(self) -> float:
        return self.weights + self.gradients + self.optimizer


@dataclass(frozen=True, slots=True)
class Local:
    """Parameters a device: those that data parallel devices share, and those of experts."""

    dense: float
    experts: float

    @property
    def total(self) -> float:
        return self.dense + self.experts


def actor_states(job: Job) -> States:
    """The trained model. With LoRA the base has weights only, the adapters all three."""
    adapters = local_adapters(job)
    if adapters is None:
        return _trained(job, local_parameters(job))
    trained, base = _trained(job, adapters), frozen_weights(job)
    return States(base + trained.weights, trained.gradients, trained.optimizer)


def weights_at_start(job: Job) -> float:
    """Weights while Megatron moves them into its buffer: those that are trained are there twice."""
    adapters = local_adapters(job)
    trained = (adapters or local_parameters(job)).total
    return 4 * trained + (frozen_weights(job) if adapters else 0)


def deferred_gradients(job: Job) -> float:
    """What whole 32-bit gradients take beyond their shards; FSDP keeps them so until the last micro batch of an update.

    Source: torch.distributed.fsdp, `no_sync` and `set_requires_gradient_sync`; adapters are too small to count.
    """
    if job.is_megatron or job.lora_rank is not None or not job.defers_sync:
        return 0.0
    shards = local_parameters(job).total
    return 4 * shards * job.fsdp_size - job.shard_bytes * shards


def frozen_weights(job: Job) -> float:
    """Weights without anything to train them."""
    return local_parameters(job).total * (2 if job.is_megatron else job.shard_bytes)


def local_parameters(job: Job) -> Local:
    counted = count_parameters(job.shape)
    if not job.is_megatron:
        return Local(counted.total / job.fsdp_size, 0)
    return _stage(job, counted)


def local_adapters(job: Job) -> Local | None:
    if job.lora_rank is None:
        return None
    dense, experts = adapter_parameters(job.shape, job.lora_rank, job.lora_targets, fused=job.is_megatron)
    if not job.is_megatron:
        return Local((dense + experts) / job.fsdp_size, 0)
    split = job.split
    return Local(dense / split.pp / split.tp, experts / split.pp / split.ep / split.etp)


def _stage(job: Job, counted: Parameters) -> Local:
    """The fullest pipeline stage: one of the two tables, or both where there is but one stage; and a vision tower.

    A tied table is held by the first and by the last stage.
    """
    split, shape = job.split, job.shape
    part = -(-shape.layers // split.pp) / shape.layers
    tables = counted.embedding + counted.head if split.pp == 1 else counted.embedding
    whole = (counted.attention + counted.mlp) * part + tables + counted.vision
    dense = whole / split.tp + counted.norms * part
    return Local(dense, counted.experts * part / split.ep / split.etp)


def _trained(job: Job, local: Local) -> States:
    if not job.is_megatron:
        shards = local.total * job.shard_bytes
        return States(shards, shards, 2 * shards)
    dense, experts = job.optimizer_bytes * local.dense, job.optimizer_bytes * local.experts
    if job.distributed_optimizer:
        dense, experts = dense / job.split.dense_copies, experts / job.split.expert_copies
    return States(2 * local.total, job.gradient_bytes * local.total, dense + experts)
