"""Describe the noise that a plan expects: its schedule, what sigma may follow, and the evidence that a run must show.

The AQN schedule is QeRL's: geometric, in stages, the first stage free of noise; and its variants.

Source: NVlabs/QeRL trl_trainer/noise_scheduler.py (commit e8c6e797), re-run against the fork of verl that uses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from typing import Any, NamedTuple


class SigmaSteps(NamedTuple):
    """Steps `first` … `last` of one sigma."""

    first: int
    last: int
    sigma: float

    @property
    def steps(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class NoiseSchedule:
    """The noise that an arm is expected to have.

    `sigmas[s - 1]` is the standard deviation of the noise on the weights that generate the rollout which the log
    reports as `step:s`; 0.0 means that this step must be free of noise. `promise`: the evidence that the run must show;
    None in plans of rlx 0.1 and 0.2, which expected none. `min_trained_share`: the least share of the noisy samples
    that a rejection must leave to the training, beyond what it takes of clean ones. `adaptive`: what sigma follows from
    its first noisy step on, where it does; `sigmas` are then those that it would have if nothing was ever measured.
    `perturbations`: the draws of a noisy step, each of which generates as many answers of every group.
    """

    sigmas: tuple[float, ...]
    stages: int
    layer_types: tuple[str, ...]
    provider: str
    in_validation: bool
    promise: NoiseExpectation | None = None
    min_trained_share: float = 0.8
    adaptive: AdaptiveSigma | None = None
    perturbations: int = 1

    def sigma(self, step: int) -> float:
        """Return sigma at a step counted from 1; steps outside the plan carry none."""
        return self.sigmas[step - 1] if 1 <= step <= len(self.sigmas) else 0.0

    @property
    def spans(self) -> tuple[SigmaSteps, ...]:
        """Return the steps in stretches of one sigma: the stages, as far as sigma distinguishes them."""
        ends: list[SigmaSteps] = []
        for sigma, group in groupby(self.sigmas):
            first = ends[-1].last + 1 if ends else 1
            ends.append(SigmaSteps(first, first + len(list(group)) - 1, sigma))
        return tuple(ends)


def stage_sigmas(
    sigma_start: float, sigma_end: float, stages: int, schedule: str = "geometric", part: tuple[int, int] = (0, 1)
) -> tuple[float, ...]:
    """Return sigma of each of the `stages` stages: 0 first, then the way from sigma_start down to sigma_end.

    `schedule`: geometric (equal ratios, as QeRL), linear (equal steps), constant or adaptive (sigma_start all along).
    `part`: which of how many epochs this is, from 0, where each epoch takes its share of the way (zhshgmail/verl
    cfb21db5, `get_epoch_aware_sigma_schedule`). Raises ValueError for fewer than three stages, where the formula
    divides by zero (2) or yields no noise (1).
    """
    if stages < 3:
        raise ValueError(f"AQN needs at least 3 stages, got {stages}")
    epoch, epochs = part
    shares = ((epoch + index / (stages - 2)) / epochs for index in range(stages - 1))
    return (0.0, *(_on_the_way(sigma_start, sigma_end, schedule, share) for share in shares))


def _on_the_way(sigma_start: float, sigma_end: float, schedule: str, share: float) -> float:
    if schedule == "linear":
        return sigma_start + (sigma_end - sigma_start) * share
    if schedule in ("constant", "adaptive"):
        return sigma_start
    return float(sigma_start * (sigma_end / sigma_start) ** share)


def sigmas_by_step(
    sigma_start: float,
    sigma_end: float,
    stages: int,
    total_steps: int,
    schedule: str = "geometric",
    epoch_steps: int | None = None,
) -> tuple[float, ...]:
    """Return sigma for each of steps 1 … total_steps. Stages are total_steps / stages wide, not always whole.

    With `epoch_steps` the stages run through in every epoch of that many steps.
    """
    length = epoch_steps or total_steps
    sigmas: list[float] = []
    # A run whose rows do not fill one batch has no step, and nothing to divide.
    epochs = -(-total_steps // length) if length else 0
    for epoch in range(epochs):
        by_stage = stage_sigmas(sigma_start, sigma_end, stages, schedule, (epoch, epochs))
        # Whole-number arithmetic: index // (length / stages) in floats puts some borders one step off.
        sigmas += (by_stage[index * stages // length] for index in range(length))
    return tuple(sigmas[:total_steps])


class Link(StrEnum):
    """A check of noise. The six lead from "noise was announced" to "the actor was trained on it", in this order.

    asked: the settings in force are the plan's. reached: every process reported, on the layers of the architecture.
    drawn: the noise differs by step and replica, and is as large as asked. felt: the engine that serves scores other
    than on clean weights. lifted: each validation saw clean weights, or noisy ones where that is declared. trained on:
    the actor learned from the samples that the noise produced.
    """

    ASKED = "asked"
    REACHED = "reached"
    DRAWN = "drawn"
    FELT = "felt"
    LIFTED = "lifted"
    TRAINED_ON = "trained on"


@dataclass(frozen=True, slots=True, order=True)
class NoiseProcess:
    """A process that holds weights which generate: its replica, its data-parallel shard there, its tensor rank there.

    All count from 0. `node` is where it is expected to run, from 0; Ray may assign nodes in another order.
    """

    replica: int = 0
    shard: int = 0
    rank: int = 0
    node: int = 0

    @property
    def place(self) -> tuple[int, int, int]:
        """Return replica, shard and rank: which part of the rollout it is, wherever it runs."""
        return self.replica, self.shard, self.rank

    def __str__(self) -> str:
        parts = [f"replica {self.replica}"]
        parts += [f"shard {self.shard}"] if self.shard else []
        return ", ".join([*parts, *([f"rank {self.rank}"] if self.rank else [])])


@dataclass(frozen=True, slots=True)
class NoiseExpectation:
    """The evidence that a plan expects of its noise beyond sigma by step, or of its absence in an arm that is watched.

    An arm that is watched has the settings of another arm's noise, with sigma 0 throughout: the same processes read
    the same weights at the same moments, and must find no noise.

    `links`: those that this back-end and version can show; empty for a plan of rlx 0.1 or 0.2, which expected none.
    `settings` is what aqn.json holds, `digest` the first 16 hexadecimal digits of the SHA-256 of that file.
    `processes`: all that must report. `layers`: the modules that take noise, by their names in the model; empty where
    the architecture is not known. `elements`: how many weights those have together. `factor`: root mean square of the
    factors on sigma over these weights; None where it depends on an unknown architecture. `confirmed`: the architecture
    is that of a config.json, or of a source that the table names, not from memory. `probed`: at each sync the engine
    that serves is asked for scores on clean and on noisy weights.
    """

    links: tuple[Link, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    processes: tuple[NoiseProcess, ...] = ()
    layers: tuple[str, ...] = ()
    elements: int | None = None
    factor: float | None = None
    confirmed: bool = True
    probed: bool = False

    def expects(self, link: Link) -> bool:
        return link in self.links


@dataclass(frozen=True, slots=True)
class AdaptiveSigma:
    """Sigma that follows a measurement of the run itself: larger while that is below its target, else smaller.

    The rule is that of Plappert et al., "Parameter space noise for exploration" (arXiv 1706.01905, section 3), with 1 +
    gain for their factor alpha of 1.01. They measure how far the noisy policy is from the clean one; the gap between
    rollout and actor is such a distance.

    `target` is "gap" or "entropy", in whose unit `value` is; sigma stays within the bounds.
    """

    target: str
    value: float
    gain: float
    sigma_min: float
    sigma_max: float

    def after(self, sigma: float, measured: float | None) -> float:
        """Compute sigma of the step after one with `sigma` and this measurement; None, nothing measured, keeps it.

        The payload computes the same (rlx/payload/rlx_aqn_settings.py).
        """
        if measured is None:
            return sigma
        moved = sigma * (1 + self.gain) if measured <= self.value else sigma / (1 + self.gain)
        return min(max(moved, self.sigma_min), self.sigma_max)

    def follow(self, planned: Sequence[float], measured: Mapping[int, float]) -> tuple[float, ...]:
        """Compute sigma of each step from 1. `planned`: 0 for steps free of noise, and where the first noise begins."""
        sigmas: list[float] = []
        last = 0.0
        for step, sigma in enumerate(planned, start=1):
            if sigma > 0:
                last = self.after(last, measured.get(step - 1)) if last > 0 else sigma
            sigmas.append(last if sigma > 0 else 0.0)
        return tuple(sigmas)
