"""The AQN noise schedule as QeRL defines it: geometric, in stages, the first stage free of noise; and its variants.

Source: NVlabs/QeRL trl_trainer/noise_scheduler.py (commit e8c6e797), re-run against the fork of verl that uses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from rlx.plan.adaptive_sigma import AdaptiveSigma
from rlx.plan.noise_promise import NoisePromise


class Span(NamedTuple):
    """Steps `first` … `last` of one sigma."""

    first: int
    last: int
    sigma: float

    @property
    def steps(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class NoiseSchedule:
    """The promise of an arm about its noise.

    `sigmas[s - 1]` is the standard deviation of the noise on the weights that generate the rollout which the log
    reports as `step:s`; 0.0 means that this step must be free of noise. `promise`: the links of the chain of evidence;
    None in plans of rlx 0.1 and 0.2, which promised none. `min_trained_share`: the least share of the noisy samples
    that a rejection must leave to the training, beyond what it takes of clean ones. `adaptive`: what sigma follows from
    its first noisy step on, where it does; `sigmas` are then those that it would have if nothing was ever measured.
    `perturbations`: the draws of a noisy step, each of which generates as many answers of every group.
    """

    sigmas: tuple[float, ...]
    stages: int
    layer_types: tuple[str, ...]
    provider: str
    in_validation: bool
    promise: NoisePromise | None = None
    min_trained_share: float = 0.8
    adaptive: AdaptiveSigma | None = None
    perturbations: int = 1

    def sigma(self, step: int) -> float:
        """Sigma at a step counted from 1; steps outside the plan carry none."""
        return self.sigmas[step - 1] if 1 <= step <= len(self.sigmas) else 0.0

    @property
    def spans(self) -> tuple[Span, ...]:
        """The steps in stretches of one sigma: the stages, as far as they are told apart by it."""
        ends: list[Span] = []
        for sigma, group in groupby(self.sigmas):
            first = ends[-1].last + 1 if ends else 1
            ends.append(Span(first, first + len(list(group)) - 1, sigma))
        return tuple(ends)


def stage_sigmas(
    sigma_start: float, sigma_end: float, stages: int, schedule: str = "geometric", part: tuple[int, int] = (0, 1)
) -> tuple[float, ...]:
    """Sigma of each of the `stages` stages: 0 first, then the way from sigma_start down to sigma_end.

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
    """Sigma for each of steps 1 … total_steps. Stages are total_steps / stages wide, which need not be whole.

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
