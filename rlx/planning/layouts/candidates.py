"""The layouts that a recipe's model and batch allow on a number of devices, with their memory and communication."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Literal

from rlx.planning.layouts.communication import rollout_communication, training_communication, waiting
from rlx.planning.layouts.divisibility import Batch, divisors, rollout_flaws, training_flaws
from rlx.planning.memory import GIB, Estimate, Job, Rollout, Split
from rlx.planning.memory.cache import Cache, cache_of
from rlx.planning.memory.estimate import Training, training_of, with_rollout

if TYPE_CHECKING:
    from rlx.recipe.schema import Recipe

# Beyond that, a list of all layouts takes seconds and helps nobody.
MOST_DEVICES = 512

Verdict = Literal["fits", "tight", "too large"]
_VERDICTS: tuple[Verdict, ...] = ("fits", "tight", "too large")


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to split training and generation. `sent`: GiB a device and step, by cause.

    `waiting`: the share of the training in which a pipeline's devices have nothing to do.
    """

    job: Job
    estimate: Estimate
    sent: dict[str, float]
    waiting: float

    @property
    def total_sent(self) -> float:
        return sum(self.sent.values())

    @property
    def verdict(self) -> Verdict:
        """`tight`: only without the margin of the estimate, or with a KV cache for less than one sequence."""
        if self.estimate.cannot_fit or self.estimate.cache.room <= 0:
            return "too large"
        return "fits" if self.estimate.fits and self.estimate.cache.sequences else "tight"


@dataclass(frozen=True, slots=True)
class Layouts:
    """`possible`: what fits first, then what sends least. `refused`: the sizes that do not divide, with the reason."""

    possible: tuple[Layout, ...]
    refused: tuple[str, ...]


def batch_of(recipe: Recipe, dynamic: bool) -> Batch:
    n, train = recipe.rollout.n, recipe.train
    return Batch(train.batch_size * n, train.mini_batch_size * n, None if dynamic else train.micro_batch_size)


def layouts(job: Job, batch: Batch) -> Layouts:
    """Every layout of `job.split.devices` devices. Deterministic: ties go by the sizes."""
    return Layouts(tuple(sorted(_possible(job, batch), key=_order)), tuple(dict.fromkeys(_refused(job, batch))))


def _possible(job: Job, batch: Batch) -> Iterator[Layout]:
    """Each half is worked out once: there are thousands of pairs on hundreds of devices."""
    halves = [_generation(job, batch, rollout) for rollout in _rollouts(job) if not _rollout_reasons(job, rollout)]
    for split in _splits(job):
        trained = replace(job, split=split)
        if not any(training_flaws(trained, batch)):
            training = training_of(trained)
            sent = _sent(training_communication(trained, batch))
            idle = waiting(trained, batch)
            yield from (_layout(trained, training, sent, idle, half) for half in halves)


@dataclass(frozen=True, slots=True)
class _Generation:
    rollout: Rollout
    cache: Cache
    sent: dict[str, float]


def _generation(job: Job, batch: Batch, rollout: Rollout) -> _Generation:
    changed = replace(job, rollout=rollout)
    return _Generation(rollout, cache_of(changed), _sent(rollout_communication(changed, batch)))


def _layout(job: Job, training: Training, sent: dict[str, float], idle: float, half: _Generation) -> Layout:
    changed = replace(job, rollout=half.rollout)
    return Layout(changed, with_rollout(changed, training, half.cache), {**sent, **half.sent}, idle)


def _sent(causes: dict[str, float]) -> dict[str, float]:
    return {cause: size / GIB for cause, size in causes.items() if size}


def _order(layout: Layout) -> tuple[object, ...]:
    split, rollout = layout.job.split, layout.job.rollout
    sizes = (split.tp, split.pp, split.cp, split.ep, rollout.tp, rollout.ep)
    return _VERDICTS.index(layout.verdict), round(layout.total_sent, 6), sizes


def _splits(job: Job) -> Iterator[Split]:
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


def _rollouts(job: Job) -> Iterator[Rollout]:
    sizes = divisors(job.split.devices)
    for tp in sizes:
        # verl spreads experts over whole groups: rollout.ep is 1 or a multiple of rollout.tp.
        for ep in sizes if job.shape.experts else (1,):
            if ep == 1 or ep % tp == 0:
                yield replace(job.rollout, tp=tp, ep=ep)


def _rollout_reasons(job: Job, rollout: Rollout) -> tuple[str, ...]:
    return tuple(rollout_flaws(job.shape, job.split.devices, rollout.tp, rollout.ep))


def _refused(job: Job, batch: Batch) -> Iterator[str]:
    """Say what is wrong with the recipe's own layout, then with single sizes that would divide the devices."""
    yield from training_flaws(job, batch)
    yield from _rollout_reasons(job, job.rollout)
    devices = job.split.devices
    for size in divisors(devices):
        for split in _single(job, size):
            # The batch depends on all sizes together; here only what one size alone rules out.
            yield from training_flaws(replace(job, split=split), Batch(split.data, split.data, None))
        yield from _rollout_reasons(job, replace(job.rollout, tp=size, ep=1))
        if job.shape.experts:
            yield from _rollout_reasons(job, replace(job.rollout, tp=1, ep=size))


def _single(job: Job, size: int) -> Iterator[Split]:
    devices = job.split.devices
    if not job.is_megatron:
        yield Split(devices, cp=size)
        return
    yield Split(devices, tp=size, etp=size)
    yield Split(devices, pp=size)
    if job.shape.experts:
        yield Split(devices, ep=size)
