"""Enumerate the layouts that a recipe's model and batch allow on a number of devices, with memory and communication.

A split is possible where Megatron, verl and vLLM accept it. Layouts that fit are ordered by the bytes that a device
sends in one step, counted for the longest samples; bytes are not seconds, since links between nodes are slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Literal

from rlx.planning.memory import GIB, MemoryEstimate, RolloutSetup, Split, TrainingSetup
from rlx.planning.memory.estimate import Cache, Training, cache_of, rollout_weights, training_of, with_rollout
from rlx.planning.memory.states import local_adapters, local_parameters
from rlx.planning.models.architectures import Architecture

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

# Beyond that, a list of all layouts takes seconds and is too long to read.
MOST_DEVICES = 512
Verdict = Literal["fits", "tight", "too large"]
_VERDICTS: tuple[Verdict, ...] = ("fits", "tight", "too large")


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """Samples per step, per optimiser update and per micro batch; the last is None with dynamic batches."""

    step: int
    update: int
    micro: int | None


@dataclass(frozen=True, slots=True)
class ParallelLayout:
    """One way to split training and generation. `sent`: GiB per device and step, by cause.

    `waiting`: the share of the training in which a pipeline's devices are idle.
    """

    job: TrainingSetup
    estimate: MemoryEstimate
    sent: dict[str, float]
    waiting: float

    @property
    def total_sent(self) -> float:
        return sum(self.sent.values())

    @property
    def verdict(self) -> Verdict:
        """Return whether it fits; `tight`: without the estimate's margin, or with a KV cache below one sequence."""
        if self.estimate.cannot_fit or self.estimate.cache.room <= 0:
            return "too large"
        return "fits" if self.estimate.fits and self.estimate.cache.sequences else "tight"


@dataclass(frozen=True, slots=True)
class Layouts:
    """`possible`: layouts that fit first, then by bytes sent. `refused`: sizes that do not divide, with the reason."""

    possible: tuple[ParallelLayout, ...]
    refused: tuple[str, ...]


def batch_of(recipe: Recipe, dynamic: bool) -> SampleCounts:
    n, train = recipe.rollout.n, recipe.train
    return SampleCounts(train.batch_size * n, train.mini_batch_size * n, None if dynamic else train.micro_batch_size)


def layouts(job: TrainingSetup, batch: SampleCounts) -> Layouts:
    """Enumerate every layout of `job.split.devices` devices in a fixed order: ties are broken by the sizes."""
    return Layouts(tuple(sorted(_possible(job, batch), key=_order)), tuple(dict.fromkeys(_refused(job, batch))))


def _possible(job: TrainingSetup, batch: SampleCounts) -> Iterator[ParallelLayout]:
    """Compute training and generation once each: there are thousands of pairs on hundreds of devices."""
    halves = [_generation(job, batch, rollout) for rollout in _rollouts(job) if not _rollout_reasons(job, rollout)]
    for split in _splits(job):
        trained = replace(job, split=split)
        if not any(training_problems(trained, batch)):
            training = training_of(trained)
            sent = _sent(training_communication(trained, batch))
            idle = waiting(trained, batch)
            yield from (_layout(trained, training, sent, idle, half) for half in halves)


@dataclass(frozen=True, slots=True)
class _Generation:
    rollout: RolloutSetup
    cache: Cache
    sent: dict[str, float]


def _generation(job: TrainingSetup, batch: SampleCounts, rollout: RolloutSetup) -> _Generation:
    changed = replace(job, rollout=rollout)
    return _Generation(rollout, cache_of(changed), _sent(rollout_communication(changed, batch)))


def _layout(
    job: TrainingSetup, training: Training, sent: dict[str, float], idle: float, half: _Generation
) -> ParallelLayout:
    changed = replace(job, rollout=half.rollout)
    return ParallelLayout(changed, with_rollout(changed, training, half.cache), {**sent, **half.sent}, idle)


def _sent(causes: dict[str, float]) -> dict[str, float]:
    return {cause: size / GIB for cause, size in causes.items() if size}


def _order(layout: ParallelLayout) -> tuple[object, ...]:
    split, rollout = layout.job.split, layout.job.rollout
    sizes = (split.tp, split.pp, split.cp, split.ep, rollout.tp, rollout.ep)
    return _VERDICTS.index(layout.verdict), round(layout.total_sent, 6), sizes


def _splits(job: TrainingSetup) -> Iterator[Split]:
    devices = job.split.devices
    sizes = divisors(devices)
    if not job.is_megatron:
        yield from (Split(devices, cp=cp) for cp in sizes)
        return
    experts = sizes if job.shape.experts else (1,)
    etp = None if job.split.etp == job.split.tp else job.split.etp
    for tp, pp, cp, ep in product(sizes, sizes, sizes, experts):
        split = Split(devices, tp, pp, cp, ep, etp or tp)
        if split.is_whole:
            yield split


def _rollouts(job: TrainingSetup) -> Iterator[RolloutSetup]:
    sizes = divisors(job.split.devices)
    for tp in sizes:
        # verl spreads experts over whole groups: rollout.ep is 1 or a multiple of rollout.tp.
        for ep in sizes if job.shape.experts else (1,):
            if ep == 1 or ep % tp == 0:
                yield replace(job.rollout, tp=tp, ep=ep)


def _rollout_reasons(job: TrainingSetup, rollout: RolloutSetup) -> tuple[str, ...]:
    return tuple(rollout_problems(job.shape, job.split.devices, rollout.tp, rollout.ep))


def _refused(job: TrainingSetup, batch: SampleCounts) -> Iterator[str]:
    """Explain what is wrong with the recipe's own layout, then with single sizes that would divide the devices."""
    yield from training_problems(job, batch)
    yield from _rollout_reasons(job, job.rollout)
    devices = job.split.devices
    for size in divisors(devices):
        for split in _single(job, size):
            # The batch depends on all sizes together; this finds only what a single size rules out.
            yield from training_problems(replace(job, split=split), SampleCounts(split.data, split.data, None))
        yield from _rollout_reasons(job, replace(job.rollout, tp=size, ep=1))
        if job.shape.experts:
            yield from _rollout_reasons(job, replace(job.rollout, tp=1, ep=size))


def _single(job: TrainingSetup, size: int) -> Iterator[Split]:
    devices = job.split.devices
    if not job.is_megatron:
        yield Split(devices, cp=size)
        return
    yield Split(devices, tp=size, etp=size)
    yield Split(devices, pp=size)
    if job.shape.experts:
        yield Split(devices, ep=size)


def training_problems(job: TrainingSetup, batch: SampleCounts) -> Iterator[str]:
    """List the reasons why the training cannot be split like that; empty if it can."""
    split, shape = job.split, job.shape
    if job.is_megatron:
        # Latent attention has no key-value heads to divide.
        keys = {} if shape.latent else {"key-value heads": shape.kv_heads}
        widths = {"columns of the MLP": shape.mlp_hidden} if shape.dense_layers else {}
        yield from _needs("tp", split.tp, heads=shape.heads, **keys, **widths)
        yield from _needs("pp", split.pp, layers=shape.layers)
        if split.pp > 1 and job.whole_critic:
            yield f"pp {split.pp}: the critic reads a layer in the middle, and needs all of them on one stage"
        yield from _expert_problems(shape, split)
    else:
        # Ulysses gives every device whole heads (arXiv:2309.14509).
        yield from _needs("cp", split.cp, heads=shape.heads)
        yield from _key_problems(shape, split.cp, "cp")
    if split.is_whole:
        yield from _batch_problems(split, batch)
    else:
        yield f"tp {split.tp} × pp {split.pp} × cp {split.cp} × ep {split.ep} does not divide {split.devices} devices"


def rollout_problems(shape: Architecture, devices: int, tp: int, ep: int) -> Iterator[str]:
    """List the reasons why the generation cannot be split like that. vLLM copies key-value heads if too few."""
    yield from _needs("rollout tp", tp, devices=devices, heads=shape.heads)
    yield from _key_problems(shape, tp, "rollout tp")
    if shape.experts is None:
        if ep > 1:
            yield f"rollout ep {ep}: the model has no experts"
    elif ep > 1:
        yield from _needs("rollout ep", ep, devices=devices, experts=shape.experts.count)
        if ep % tp:
            yield f"rollout ep {ep} is no multiple of rollout tp {tp}"
    else:
        yield from _needs("rollout tp", tp, **{"columns of an expert": shape.experts.hidden})


def _key_problems(shape: Architecture, size: int, name: str) -> Iterator[str]:
    """Check key-value heads; too few are copied (vLLM; verl's Ulysses, models/transformers/monkey_patch.py)."""
    if shape.kv_heads % size and size % shape.kv_heads:
        yield f"{name} {size} neither divides {shape.kv_heads} key-value heads nor is a multiple of them"


def _expert_problems(shape: Architecture, split: Split) -> Iterator[str]:
    if shape.experts is None:
        if split.ep > 1:
            yield f"ep {split.ep}: the model has no experts"
        return
    yield from _needs("ep", split.ep, experts=shape.experts.count)
    yield from _needs("tp", split.etp, **{"columns of an expert": shape.experts.hidden})


def _batch_problems(split: Split, batch: SampleCounts) -> Iterator[str]:
    name = f"{split.data} data parallel groups:"
    if batch.step % split.data or batch.update % split.data:
        yield f"{name} {batch.step} samples a step and {batch.update} an update do not divide by {split.data}"
    elif batch.micro and batch.update // split.data % batch.micro:
        each = batch.update // split.data
        yield f"{name} {each} samples of an update on each do not divide by the micro batch of {batch.micro}"


def _needs(name: str, size: int, **counts: int) -> Iterator[str]:
    """Name the counts that a size does not divide: `tp 3 divides neither 32 heads nor 4 key-value heads`."""
    undivided = [f"{count} {what}" for what, count in counts.items() if count % size]
    if len(undivided) > 1:
        yield f"{name} {size} divides neither {', '.join(undivided[:-1])} nor {undivided[-1]}"
    elif undivided:
        yield f"{name} {size} does not divide {undivided[0]}"


def rollout_communication(job: TrainingSetup, batch: SampleCounts) -> dict[str, float]:
    """Return bytes per device and step: `rollout` while it generates, `weights` to update its weights."""
    return {"rollout": _rollout(job, batch), "weights": rollout_weights(job)}


def training_communication(job: TrainingSetup, batch: SampleCounts) -> dict[str, float]:
    """Return bytes per device and step without the rollout: `tensor`, `pipeline`, `context`, `expert`, `data`."""
    split = job.split
    tokens = batch.step * job.rollout.sequence / split.data
    if not job.is_megatron:
        # Ulysses: four all-to-alls per layer and pass, each of a device's part (arXiv:2309.14509, section 3.2).
        part = 4 * 2 * job.shape.hidden * job.shape.layers / split.cp
        context = tokens * part * _others(split.cp) * (_forward(job) + 1)
        return {"context": context, "data": _sharded(job, batch)}
    return {**_model_parallel(job, tokens), "data": _replicated(job, batch)}


def waiting(job: TrainingSetup, batch: SampleCounts) -> float:
    """Return the pipeline bubble's share of the time: (pp - 1) / (pp - 1 + micro batches) (arXiv:2104.04473, 2.2)."""
    micro = max(1.0, batch.update / job.split.data * job.rollout.sequence / job.update_tokens.longest)
    return (job.split.pp - 1) / (job.split.pp - 1 + micro)


def _model_parallel(job: TrainingSetup, tokens: float) -> dict[str, float]:
    split, shape = job.split, job.shape
    hidden = 2 * shape.hidden * tokens / split.cp
    layers = shape.layers / split.pp
    passes = _forward(job) + 1
    keys = 2 * 2 * shape.kv_heads * shape.head_dim * tokens / split.cp / split.tp
    return {
        # Two all-reduces per layer and pass, forward and backward alike (arXiv:1909.08053, section 3).
        "tensor": passes * layers * 2 * hidden * 2 * _others(split.tp),
        "pipeline": passes * hidden / split.tp if split.pp > 1 else 0.0,
        # Keys and values pass around the ring, and their gradients pass back (arXiv:2310.01889).
        "context": (_forward(job) + 2) * layers * keys * (split.cp - 1),
        "expert": passes * _expert(job, hidden / split.tp),
    }


def _expert(job: TrainingSetup, hidden: float) -> float:
    """Count the transfer to the experts and back, one copy for each (arXiv:2006.16668, section 3)."""
    experts = job.shape.experts
    if experts is None:
        return 0.0
    return experts.layers / job.split.pp * 2 * experts.active * hidden * _others(job.split.ep)


def _replicated(job: TrainingSetup, batch: SampleCounts) -> float:
    """Count Megatron's distributed optimiser: per update it reduces 32-bit gradients and gathers 16-bit weights."""
    trained = local_adapters(job) or local_parameters(job)
    split = job.split
    each = trained.dense * _others(split.dense_copies) + trained.experts * _others(split.expert_copies)
    return batch.step / batch.update * 6 * each


def _sharded(job: TrainingSetup, batch: SampleCounts) -> float:
    """Count FSDP: per micro batch it gathers weights in every pass and reduces gradients (arXiv:1910.02054, 7)."""
    everything = local_parameters(job).total * job.fsdp_size
    trained = (local_adapters(job) or local_parameters(job)).total * job.fsdp_size
    micro = max(1.0, batch.step / job.split.data * job.rollout.sequence / job.update_tokens.longest)
    gathers = 2 * everything * (_forward(job) + 1)
    return micro * (gathers + 4 * trained) * _others(job.fsdp_size)


def _rollout(job: TrainingSetup, batch: SampleCounts) -> float:
    """Count one pass of every token: two all-reduces per layer, or two all-to-alls where experts are distributed."""
    rollout, shape = job.rollout, job.shape
    hidden = 2 * shape.hidden * batch.step * rollout.sequence * rollout.tp / job.split.devices
    total = shape.layers * 2 * hidden * 2 * _others(rollout.tp)
    if shape.experts is not None and rollout.ep > 1:
        total += shape.experts.layers * 2 * shape.experts.active * hidden / rollout.tp * _others(rollout.ep)
    return total


def _forward(job: TrainingSetup) -> int:
    """Count the forward passes of a sample: log-probability, reference, update and recomputation."""
    return 2 + job.reference + job.recompute.full


def _others(size: int) -> float:
    """Return the share that comes from other devices in a collective of `size`."""
    return (size - 1) / size


def divisors(number: int) -> tuple[int, ...]:
    return tuple(size for size in range(1, number + 1) if number % size == 0)
