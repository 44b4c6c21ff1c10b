"""Bytes that a device sends in one step, by cause: what orders layouts that all divide and fit.

Counted for the longest samples. Bytes are no seconds: they do not know that links between nodes are slower.
"""

from __future__ import annotations

from rlx.planning.layouts.divisibility import Batch
from rlx.planning.memory import Job
from rlx.planning.memory.cache import rollout_weights
from rlx.planning.memory.states import local_adapters, local_parameters


def rollout_communication(job: Job, batch: Batch) -> dict[str, float]:
    """Bytes a device and step: `rollout` while it generates, `weights` to hand it the new ones."""
    return {"rollout": _rollout(job, batch), "weights": rollout_weights(job)}


def training_communication(job: Job, batch: Batch) -> dict[str, float]:
    """Bytes a device and step: `tensor`, `pipeline`, `context`, `expert`, `data`. Nothing of it is the rollout's."""
    split = job.split
    tokens = batch.step * job.rollout.sequence / split.data
    if not job.is_megatron:
        # Ulysses: four all-to-alls a layer and pass, each of a device's part (arXiv:2309.14509, section 3.2).
        part = 4 * 2 * job.shape.hidden * job.shape.layers / split.cp
        context = tokens * part * _others(split.cp) * (_forward(job) + 1)
        return {"context": context, "data": _sharded(job, batch)}
    return {**_model_parallel(job, tokens), "data": _replicated(job, batch)}


def waiting(job: Job, batch: Batch) -> float:
    """The pipeline's bubble, as a share of the time: (pp - 1) / (pp - 1 + micro batches) (arXiv:2104.04473, 2.2)."""
    micro = max(1.0, batch.update / job.split.data * job.rollout.sequence / job.update_tokens.longest)
    return (job.split.pp - 1) / (job.split.pp - 1 + micro)


def _model_parallel(job: Job, tokens: float) -> dict[str, float]:
    split, shape = job.split, job.shape
    hidden = 2 * shape.hidden * tokens / split.cp
    layers = shape.layers / split.pp
    passes = _forward(job) + 1
    keys = 2 * 2 * shape.kv_heads * shape.head_dim * tokens / split.cp / split.tp
    return {
        # Two all-reduces a layer and pass, forward and backward alike (arXiv:1909.08053, section 3).
        "tensor": passes * layers * 2 * hidden * 2 * _others(split.tp),
        "pipeline": passes * hidden / split.tp if split.pp > 1 else 0.0,
        # Keys and values go round the ring, and back with their gradients (arXiv:2310.01889).
        "context": (_forward(job) + 2) * layers * keys * (split.cp - 1),
        "expert": passes * _expert(job, hidden / split.tp),
    }


def _expert(job: Job, hidden: float) -> float:
    """Count the way to the experts and back, one copy for each of them (arXiv:2006.16668, section 3)."""
    experts = job.shape.experts
    if experts is None:
        return 0.0
    return experts.layers / job.split.pp * 2 * experts.active * hidden * _others(job.split.ep)


def _replicated(job: Job, batch: Batch) -> float:
    """Megatron's distributed optimiser: 32-bit gradients are reduced, 16-bit weights gathered, once an update."""
    trained = local_adapters(job) or local_parameters(job)
    split = job.split
    each = trained.dense * _others(split.dense_copies) + trained.experts * _others(split.expert_copies)
    return batch.step / batch.update * 6 * each


def _sharded(job: Job, batch: Batch) -> float:
    """FSDP gathers 16-bit weights in every pass of a micro batch and reduces 32-bit gradients (arXiv:1910.02054, 7)."""
    everything = local_parameters(job).total * job.fsdp_size
    trained = (local_adapters(job) or local_parameters(job)).total * job.fsdp_size
    micro = max(1.0, batch.step / job.split.data * job.rollout.sequence / job.update_tokens.longest)
    gathers = 2 * everything * (_forward(job) + 1)
    return micro * (gathers + 4 * trained) * _others(job.fsdp_size)


def _rollout(job: Job, batch: Batch) -> float:
    """Every token passes the layers once: two all-reduces each, or two all-to-alls where experts are spread."""
    rollout, shape = job.rollout, job.shape
    hidden = 2 * shape.hidden * batch.step * rollout.sequence * rollout.tp / job.split.devices
    total = shape.layers * 2 * hidden * 2 * _others(rollout.tp)
    if shape.experts is not None and rollout.ep > 1:
        total += shape.experts.layers * 2 * shape.experts.active * hidden / rollout.tp * _others(rollout.ep)
    return total


def _forward(job: Job) -> int:
    """Forward passes of a sample: its log-probability, the reference's, the update, and once more to recompute."""
    return 2 + job.reference + job.recompute.full


def _others(size: int) -> float:
    """The share that comes from other devices in a collective of `size`."""
    return (size - 1) / size
