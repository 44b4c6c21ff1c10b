"""Estimate the memory that a device needs in each phase of a step, and the KV cache that the rollout has left.

States are exact; activations are a range from typical to longest samples. vLLM gives the KV cache what remains of
`gpu_memory_utilization` × capacity after weights and a profiling run (docs.vllm.ai, "Conserving Memory";
arXiv:2309.06180). It sleeps while the model trains (docs.vllm.ai, "Sleep Mode").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.planning.memory import activations
from rlx.planning.memory.activations import MemoryRange
from rlx.planning.memory.job import GIB, BackendSettings, TrainingSetup, device_of, job_of
from rlx.planning.memory.states import States, actor_states, deferred_gradients, frozen_weights, weights_at_start
from rlx.planning.models.architectures import Architecture, count_parameters

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

# The parts that do not depend on lengths or kernels.
EXACT = frozenset({"weights", "gradients", "optimizer", "reference", "critic", "rollout"})
# The largest upper end of a range, as a multiple of the lower: a wider range is not useful.
WIDEST = 1.6
# Parts that torch does not count for the processes that train.
_UNCOUNTED = frozenset({"runtime", "rollout"})
# GiB of contexts and communication buffers of the processes on a device. Fitted: see docs/dev/memory-model.md.
RUNTIME = MemoryRange(0.5, 1.5)
# The largest share that padding, buckets and gaps between blocks add, except for the rollout.
_PADDING = 0.05
_Parts = Mapping[str, float | MemoryRange]


@dataclass(frozen=True, slots=True)
class MemoryPhase:
    """GiB per device and part, with short samples and with the longest."""

    name: str
    parts: Mapping[str, MemoryRange]

    @property
    def states(self) -> float:
        """The sum of the parts that do not depend on the samples."""
        return sum(size.typical for part, size in self.parts.items() if part in EXACT)

    @property
    def lower(self) -> float:
        return sum(size.typical for size in self.parts.values())

    @property
    def upper(self) -> float:
        return min(self.longest, WIDEST * self.lower)

    @property
    def longest(self) -> float:
        """The sum with every sample at its longest, which may be far above the range."""
        return sum(size.longest for size in self.parts.values())


@dataclass(frozen=True, slots=True)
class Cache:
    """The rollout's bytes per device; `token`: of one token in the cache; `sequence`: the longest one in tokens."""

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


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    job: TrainingSetup
    phases: tuple[MemoryPhase, ...]
    cache: Cache

    @property
    def capacity(self) -> float:
        """GiB."""
        return self.job.device.capacity

    @property
    def fits(self) -> bool:
        """True if every phase fits even with the longest samples."""
        return all(phase.longest <= self.capacity for phase in self.phases)

    @property
    def cannot_fit(self) -> bool:
        """True if the states of a phase alone do not fit."""
        return any(phase.states > self.capacity for phase in self.phases)

    @property
    def allocated(self) -> MemoryRange:
        """The range of what torch allocates at most in the processes that train (`max_memory_allocated`)."""
        phases = [
            MemoryPhase(phase.name, {part: size for part, size in phase.parts.items() if part not in _UNCOUNTED})
            for phase in self.phases
            if phase.name != "rollout"
        ]
        lower = max(phase.lower for phase in phases)
        return MemoryRange(lower, min(max(phase.longest for phase in phases), WIDEST * lower))


def span_text(size: MemoryRange) -> str:
    """Write `14.2`, or `1.1 to 9.0`."""
    ends = f"{size.typical:.1f}", f"{size.longest:.1f}"
    return " to ".join(dict.fromkeys(ends))


def estimate_of(recipe: Recipe, settings: BackendSettings, shape: Architecture) -> MemoryEstimate | None:
    """Estimate a recipe; None where the memory of a device is not known, or the devices cannot be split like that."""
    device = device_of(recipe)
    if device is None:
        return None
    job = job_of(recipe, settings, shape, device)
    return estimate(job) if job.split.is_whole else None


def estimate(job: TrainingSetup) -> MemoryEstimate:
    """Estimate the phases in their order: start, rollout, log-probabilities, reference, actor update."""
    return with_rollout(job, training_of(job), cache_of(job))


@dataclass(frozen=True, slots=True)
class Training:
    """The memory that does not depend on the rollout: bytes that stay in every phase, and the phases that train."""

    idle: _Parts
    start: tuple[MemoryPhase, ...]
    phases: tuple[tuple[str, _Parts], ...]


def training_of(job: TrainingSetup) -> Training:
    states = actor_states(job)
    return Training(_idle(job, states), tuple(_start(job, states)), tuple(_training(job, states)))


def with_rollout(job: TrainingSetup, training: Training, cache: Cache) -> MemoryEstimate:
    """Combine training and rollout into one estimate. `training` and `cache` were computed for this `job`."""
    pool, alone = {"rollout": cache.pool}, not job.rollout.colocated
    beside = {} if job.rollout.sleeps or alone else pool
    rollout = _phase("rollout", pool if alone else {**training.idle, **pool})
    phases = (_phase(name, {**parts, **beside}) for name, parts in training.phases)
    return MemoryEstimate(job, (*training.start, rollout, *phases), cache)


def _phase(name: str, parts: _Parts) -> MemoryPhase:
    """Convert to GiB, and add padding and the memory of the processes outside torch."""
    spans = {part: _gib(size) for part, size in parts.items()}
    shown = {part: size for part, size in spans.items() if size.longest}
    blocks = sum(size.longest for part, size in shown.items() if part != "rollout")
    added = {"padding": MemoryRange(0.0, _PADDING * blocks)} if blocks else {}
    return MemoryPhase(name, {**shown, **added, "runtime": RUNTIME})


def _gib(size: float | MemoryRange) -> MemoryRange:
    return (
        MemoryRange(size.typical / GIB, size.longest / GIB)
        if isinstance(size, MemoryRange)
        else MemoryRange(size / GIB, size / GIB)
    )


def _start(job: TrainingSetup, states: States) -> Iterator[MemoryPhase]:
    """Yield the start: Megatron's distributed optimizer allocates its buffers while the original weights still exist.

    Source: megatron-core 0.12.1 _ParamAndGradBuffer, which allocates all of `param_data` and `grad_data` first.
    """
    if job.is_megatron and job.distributed_optimizer:
        yield _phase("start", {"weights": weights_at_start(job), "gradients": states.gradients})


def _training(job: TrainingSetup, states: States) -> Iterator[tuple[str, _Parts]]:
    idle = _idle(job, states)
    forward = {
        "activations": activations.forward_activations(job),
        "logits": activations.forward_logits(job),
        "gathered": activations.gathered_weights(job, trained=False),
    }
    yield "log-prob", {**idle, "weights": states.weights, **forward}
    if job.reference:
        own = {"reference": _reference(job)} if job.lora_rank is None else {"weights": states.weights}
        yield "reference", {**idle, **own, **forward}
    if job.critic:
        yield "critic update", {**idle, "critic": states.total, **_backward(job)}
    update = {"weights": states.weights, "gradients": states.gradients, "optimizer": states.optimizer}
    yield "actor update", {**idle, **update, **_backward(job)}


def _backward(job: TrainingSetup) -> _Parts:
    return {
        "activations": activations.update_activations(job),
        "logits": activations.update_logits(job),
        "gathered": activations.gathered_weights(job, trained=True),
        "unreduced gradients": _unreduced(job),
    }


def _unreduced(job: TrainingSetup) -> MemoryRange:
    """Return whole gradients, which are kept where an update has more than one micro batch."""
    size = deferred_gradients(job)
    return MemoryRange(size * (job.update_steps.typical > 1), size * (job.update_steps.longest > 1))


def _idle(job: TrainingSetup, states: States) -> _Parts:
    """Return what stays on the device in every phase.

    FSDP frees gradients after the step; Megatron keeps its buffer, which is offloaded with the weights.
    """
    away = job.offload
    return {
        "weights": 0 if away.weights else states.weights,
        "gradients": _idle_gradients(job, states),
        "optimizer": 0 if away.optimizer else states.optimizer,
        "reference": _reference(job) if job.reference and not job.reference_offload else 0,
        "critic": _idle_critic(job, states) if job.critic else 0,
    }


def _idle_gradients(job: TrainingSetup, states: States) -> float:
    keeps = job.is_megatron and not (job.offload.gradients or job.offload.weights)
    return states.gradients if keeps else 0


def _idle_critic(job: TrainingSetup, states: States) -> float:
    """Return the idle critic: it has the actor's shape except for its head, and is assumed to be offloaded like it."""
    weights = 0 if job.offload.weights else states.weights
    return weights + _idle_gradients(job, states) + (0 if job.offload.optimizer else states.optimizer)


def _reference(job: TrainingSetup) -> float:
    """Return the reference. With LoRA it is the base of the actor."""
    return 0.0 if job.lora_rank is not None else frozen_weights(job)


def cache_of(job: TrainingSetup) -> Cache:
    return Cache(
        pool=job.rollout.fraction * job.device.capacity * GIB,
        weights=rollout_weights(job),
        work=_work(job),
        token=token_bytes(job.shape, job.rollout.tp) * job.rollout.dtype_bytes,
        sequence=job.rollout.sequence,
    )


def rollout_weights(job: TrainingSetup) -> float:
    counted, rollout = count_parameters(job.shape), job.rollout
    experts = counted.experts / max(rollout.ep, rollout.tp)
    return ((counted.total - counted.experts) / rollout.tp + experts) * rollout.dtype_bytes


def token_bytes(shape: Architecture, tp: int) -> float:
    """Return the values per token and device: keys and values of every layer; too few heads are copied.

    Latent attention keeps the latent and the rotary part, whole on every device (arXiv:2405.04434, section 2.1.3).
    """
    if shape.latent is not None:
        return shape.layers * (shape.latent.kv_rank + shape.latent.rope_dim)
    return shape.layers * 2 * shape.head_dim * max(1.0, shape.kv_heads / tp)


def _work(job: TrainingSetup) -> float:
    """Return the bytes of the profiling run: a layer's widest point over a full batch, and logits in 32 bits."""
    shape, rollout = job.shape, job.rollout
    widest = 3 * shape.mlp_hidden / rollout.tp if shape.dense_layers else 0.0
    if shape.experts is not None:
        experts = shape.experts
        routed = experts.active * (3 * experts.hidden / rollout.tp + shape.hidden)
        widest = max(widest, routed + 3 * experts.shared_hidden / rollout.tp)
    values = 2 * shape.hidden + max(widest, shape.heads * shape.head_dim * 4 / rollout.tp)
    return rollout.batch * values * rollout.dtype_bytes + rollout.sequences * shape.vocab * 4
