"""Estimate the memory a device needs in each phase of a step: states exactly, the rest from typical to longest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rlx.planning.memory import activations
from rlx.planning.memory.activations import Span
from rlx.planning.memory.cache import Cache, cache_of
from rlx.planning.memory.job import GIB, Job
from rlx.planning.memory.states import (
    States,
    actor_states,
    deferred_gradients,
    frozen_weights,
    weights_at_start,
)

# The parts that do not depend on lengths or kernels.
EXACT = frozenset({"weights", "gradients", "optimizer", "reference", "critic", "rollout"})

# The largest upper end of a range, as a multiple of the lower: a wider one says nothing.
WIDEST = 1.6

# What torch does not count of the processes that train.
_UNCOUNTED = frozenset({"runtime", "rollout"})
# GiB of contexts and communication buffers of the processes on a device. Fitted: see docs/dev/memory-model.md.
RUNTIME = Span(0.5, 1.5)
# The share that padding, buckets and gaps between blocks add at most; nothing to the rollout's own.
_PADDING = 0.05

_Parts = Mapping[str, float | Span]


def span_text(size: Span) -> str:
    """`14.2`, or `1.1 to 9.0`."""
    ends = f"{size.typical:.1f}", f"{size.longest:.1f}"
    return " to ".join(dict.fromkeys(ends))


@dataclass(frozen=True, slots=True)
class Phase:
    """GiB a device by part, with short samples and with the longest."""

    name: str
    parts: Mapping[str, Span]

    @property
    def states(self) -> float:
        """What is there in any case."""
        return sum(size.typical for part, size in self.parts.items() if part in EXACT)

    @property
    def lower(self) -> float:
        return sum(size.typical for size in self.parts.values())

    @property
    def upper(self) -> float:
        return min(self.longest, WIDEST * self.lower)

    @property
    def longest(self) -> float:
        """With every sample at its longest, which may be far beyond the range."""
        return sum(size.longest for size in self.parts.values())


@dataclass(frozen=True, slots=True)
class Estimate:
    job: Job
    phases: tuple[Phase, ...]
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
    def allocated(self) -> Span:
        """The range of what torch allocates at most in the processes that train (`max_memory_allocated`)."""
        phases = [_by_torch(phase) for phase in self.phases if phase.name != "rollout"]
        lower = max(phase.lower for phase in phases)
        return Span(lower, min(max(phase.longest for phase in phases), WIDEST * lower))


def _by_torch(phase: Phase) -> Phase:
    """Leave out what torch does not count, or another process holds."""
    return Phase(phase.name, {part: size for part, size in phase.parts.items() if part not in _UNCOUNTED})


def estimate(job: Job) -> Estimate:
    """The phases in their order: start, rollout, log-probabilities, reference, actor update."""
    return with_rollout(job, training_of(job), cache_of(job))


@dataclass(frozen=True, slots=True)
class Training:
    """The memory that does not depend on the rollout: bytes that stay in any phase, and the phases that train."""

    idle: _Parts
    start: tuple[Phase, ...]
    phases: tuple[tuple[str, _Parts], ...]


def training_of(job: Job) -> Training:
    states = actor_states(job)
    return Training(_idle(job, states), tuple(_start(job, states)), tuple(_training(job, states)))


def with_rollout(job: Job, training: Training, cache: Cache) -> Estimate:
    """`training` and `cache` are those of the job, worked out before."""
    pool, alone = {"rollout": cache.pool}, not job.rollout.colocated
    beside = {} if job.rollout.sleeps or alone else pool
    rollout = _phase("rollout", pool if alone else {**training.idle, **pool})
    phases = (_phase(name, {**parts, **beside}) for name, parts in training.phases)
    return Estimate(job, (*training.start, rollout, *phases), cache)


def _phase(name: str, parts: _Parts) -> Phase:
    """In GiB, with what padding adds and the processes take beside torch."""
    spans = {part: _gib(size) for part, size in parts.items()}
    shown = {part: size for part, size in spans.items() if size.longest}
    blocks = sum(size.longest for part, size in shown.items() if part != "rollout")
    added = {"padding": Span(0.0, _PADDING * blocks)} if blocks else {}
    return Phase(name, {**shown, **added, "runtime": RUNTIME})


def _gib(size: float | Span) -> Span:
    return Span(size.typical / GIB, size.longest / GIB) if isinstance(size, Span) else Span(size / GIB, size / GIB)


def _start(job: Job, states: States) -> Iterator[Phase]:
    """The buffers of Megatron's distributed optimizer are made while the weights that move into them are still there.

    Source: megatron-core 0.12.1 _ParamAndGradBuffer, which allocates all of `param_data` and `grad_data` first.
    """
    if job.is_megatron and job.distributed_optimizer:
        yield _phase("start", {"weights": weights_at_start(job), "gradients": states.gradients})


def _training(job: Job, states: States) -> Iterator[tuple[str, _Parts]]:
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


def _backward(job: Job) -> _Parts:
    return {
        "activations": activations.update_activations(job),
        "logits": activations.update_logits(job),
        "gathered": activations.gathered_weights(job, trained=True),
        "unreduced gradients": _unreduced(job),
    }


def _unreduced(job: Job) -> Span:
    """Whole gradients are kept where an update has more than one micro batch."""
    size = deferred_gradients(job)
    return Span(size * (job.update_steps.typical > 1), size * (job.update_steps.longest > 1))


def _idle(job: Job, states: States) -> _Parts:
    """Sum what stays on the device in any phase.

    FSDP frees gradients after the step; Megatron keeps its buffer, which goes to the host with the weights.
    """
    away = job.offload
    return {
        "weights": 0 if away.weights else states.weights,
        "gradients": _idle_gradients(job, states),
        "optimizer": 0 if away.optimizer else states.optimizer,
        "reference": _reference(job) if job.reference and not job.reference_offload else 0,
        "critic": _idle_critic(job, states) if job.critic else 0,
    }


def _idle_gradients(job: Job, states: States) -> float:
    keeps = job.is_megatron and not (job.offload.gradients or job.offload.weights)
    return states.gradients if keeps else 0


def _idle_critic(job: Job, states: States) -> float:
    """A critic has the actor's shape, but for its head; it is taken to be offloaded like the actor."""
    weights = 0 if job.offload.weights else states.weights
    return weights + _idle_gradients(job, states) + (0 if job.offload.optimizer else states.optimizer)


def _reference(job: Job) -> float:
    """Sum the reference. With LoRA it is the base of the actor itself."""
    return 0.0 if job.lora_rank is not None else frozen_weights(job)
