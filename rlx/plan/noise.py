"""The AQN noise schedule as QeRL defines it: geometric, in stages, the first stage free of noise.

Source: NVlabs/QeRL trl_trainer/noise_scheduler.py (commit e8c6e797), re-run against the fork of verl that uses it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NoiseSchedule:
    """What an arm promises about its noise.

    `sigmas[s - 1]` is the standard deviation of the noise on the weights that generate the rollout which the log
    reports as `step:s`; 0.0 means that this step must be free of noise.
    """

    sigmas: tuple[float, ...]
    stages: int
    layer_types: tuple[str, ...]
    provider: str
    in_validation: bool

    def sigma(self, step: int) -> float:
        """Sigma at a step counted from 1; steps outside the plan carry none."""
        return self.sigmas[step - 1] if 1 <= step <= len(self.sigmas) else 0.0


def stage_sigmas(sigma_start: float, sigma_end: float, stages: int) -> tuple[float, ...]:
    """Sigma of each of the `stages` stages: 0 first, then sigma_start down to sigma_end in equal ratios.

    Raises ValueError for fewer than three stages, where the formula divides by zero (2) or yields no noise (1).
    """
    if stages < 3:
        raise ValueError(f"AQN needs at least 3 stages, got {stages}")
    ratio = sigma_end / sigma_start
    return (0.0, *(sigma_start * ratio ** (index / (stages - 2)) for index in range(stages - 1)))


def sigmas_by_step(sigma_start: float, sigma_end: float, stages: int, total_steps: int) -> tuple[float, ...]:
    """Sigma for each of steps 1 … total_steps. Stages are total_steps / stages wide, which need not be whole."""
    by_stage = stage_sigmas(sigma_start, sigma_end, stages)
    # Whole-number arithmetic: index // (total / stages) in floats puts some borders one step off.
    return tuple(by_stage[min(stages - 1, index * stages // total_steps)] for index in range(total_steps))
