"""Memory a device in each phase of a step: what is resident, what the phase adds, and how far that may be off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rlx.preflight.memory import activations
from rlx.preflight.memory.cache import Cache, cache_of
from rlx.preflight.memory.job import GIB, Job
from rlx.preflight.memory.states import States, actor_states, frozen_weights

# Share by which a part may be off: states are exact but for padding and buckets, work depends on kernels and on
# lengths, and the pool is a promise of the inference engine.
MARGINS = {
    "weights": 0.05,
    "gradients": 0.05,
    "optimizer": 0.05,
    "reference": 0.05,
    "critic": 0.05,
    "gathered": 0.2,
    "activations": 0.3,
    "logits": 0.25,
    "rollout": 0.0,
    "runtime": 0.5,
}

# Padding and buckets only add to these.
_EXACT = ("weights", "gradients", "optimizer", "reference", "critic", "rollout")

# Contexts and communication buffers of the processes on a device. Fitted: see docs/memory.md.
RUNTIME = 1.0


@dataclass(frozen=True, slots=True)
class Phase:
    """GiB a device by part."""

    name: str
    parts: dict[str, float]

    @property
    def total(self) -> float:
        return sum(self.parts.values())

    @property
    def margin(self) -> float:
        """The parts' errors added up: they have the same causes."""
        return sum(size * MARGINS[part] for part, size in self.parts.items())

    @property
    def least(self) -> float:
        """The lower end of the margin."""
        return sum(size * (1 - (0 if part in _EXACT else MARGINS[part])) for part, size in self.parts.items())


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
        """True if the phase fits even at the upper end of the margin."""
        return all(phase.total + phase.margin <= self.capacity for phase in self.phases)

    @property
    def cannot_fit(self) -> bool:
        """True if the phase does not fit even at the lower end."""
        return any(phase.least > self.capacity for phase in self.phases)


def estimate(job: Job) -> Estimate:
    """The phases of a step in their order: rollout, log-probabilities, reference, actor update."""
    return with_rollout(job, training_of(job), cache_of(job))


@dataclass(frozen=True, slots=True)
class Training:
    """The memory that does not depend on the rollout: GiB that stay in any phase, and the phases that train."""

    idle: dict[str, float]
    phases: tuple[Phase, ...]


def training_of(job: Job) -> Training:
    states = actor_states(job)
    phases = tuple(Phase(name, _gib(parts)) for name, parts in _training(job, states))
    return Training(_gib(_idle(job, states)), phases)


def with_rollout(job: Job, training: Training, cache: Cache) -> Estimate:
    """`training` and `cache` are those of the job, worked out before."""
    pool = {"rollout": cache.pool / GIB}
    alone = not job.rollout.colocated
    rollout = Phase("rollout", {**pool, "runtime": RUNTIME} if alone else {**training.idle, **pool})
    phases = training.phases
    if not job.rollout.sleeps and not alone:
        phases = tuple(Phase(phase.name, {**phase.parts, **pool}) for phase in phases)
    return Estimate(job, (rollout, *phases), cache)


def _gib(parts: dict[str, float]) -> dict[str, float]:
    return {**{part: size / GIB for part, size in parts.items() if size}, "runtime": RUNTIME}


def _training(job: Job, states: States) -> Iterator[tuple[str, dict[str, float]]]:
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


def _backward(job: Job) -> dict[str, float]:
    return {
        "activations": activations.update_activations(job),
        "logits": activations.update_logits(job),
        "gathered": activations.gathered_weights(job, trained=True),
    }


def _idle(job: Job, states: States) -> dict[str, float]:
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
