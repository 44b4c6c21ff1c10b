"""Gaps between rollout and actor by step, as runs would log them, whose truth is known.

A floor without noise: 1.3e-7 ± 10 % in float32, 4e-3 ± 8 % in bfloat16, there steady, with a linear drift of up to a
half either way over the run, or with a random walk of 1 % a step. Noise adds to it in squares: 0.12 to 1.1 times sigma
(what was measured: 0.12 on the tiny model in float32, up to 1.1 on one of 0.5B), ± 25 % from draw to draw. One step in
fifty is an outlier: most by a Pareto factor upwards (index 1.5: no finite variance), every fourth downwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from rlx.evidence import Evidence, NoiseEvent, RunTotals, Verdict, judge
from rlx.evidence.checks.gap_test import LEAST_GAP, DosedStep, DoseResponse, GapTest, steps_off
from rlx.model import Expectations, NoiseSchedule, RunState, sigmas_by_step

Floats = NDArray[np.float64]
METRIC = "val-core/a/acc/mean@1"
GAP = "training/rollout_probs_diff_mean"
FLOORS = {
    "float32": (1.3e-7, 0.10, "steady"),
    "bfloat16, steady": (4e-3, 0.08, "steady"),
    "bfloat16, linear drift": (4e-3, 0.08, "linear"),
    "bfloat16, random walk": (4e-3, 0.08, "walk"),
}
SCHEDULES = {"5 stages": (5, "geometric"), "10 stages": (10, "geometric"), "constant": (5, "constant")}


@dataclass(frozen=True, slots=True)
class Simulated:
    """Runs of one kind. `floor` names one of FLOORS, or gives its level; `sigma` is that of the strongest stage."""

    floor: str
    schedule: str
    steps: int
    sigma: float = 0.05
    outliers: float = 0.02
    level: float | None = None

    @property
    def sigmas(self) -> tuple[float, ...]:
        stages, shape = SCHEDULES[self.schedule]
        return sigmas_by_step(self.sigma, self.sigma / 100, stages, self.steps, shape)

    def floors(self, rng: Generator) -> Floats:
        level, scatter, drift = FLOORS[self.floor]
        values = (self.level or level) * np.exp(rng.normal(0, scatter, self.steps))
        if drift == "linear":
            values *= 1 + rng.uniform(-0.5, 0.5) * np.arange(self.steps) / self.steps
        if drift == "walk":
            values *= np.exp(np.cumsum(rng.normal(0, 0.01, self.steps)))
        return values

    def honest(self, rng: Generator) -> Floats:
        """The gap of a run whose noise came as recorded."""
        return self.with_noise(rng, self.sigmas)

    def one_step_late(self, rng: Generator) -> Floats:
        return self.with_noise(rng, (0.0, *self.sigmas[:-1]))

    def never(self, rng: Generator) -> Floats:
        return self.with_noise(rng, [0.0] * self.steps)

    def raised_and_flat(self, rng: Generator) -> Floats:
        """A gap that rises where the noise should begin, and stays."""
        return self.with_noise(rng, [self.sigma if sigma else 0.0 for sigma in self.sigmas])

    def with_noise(self, rng: Generator, sigmas: Sequence[float]) -> Floats:
        response = np.exp(rng.uniform(math.log(0.12), math.log(1.1))) * np.exp(rng.normal(0, 0.25, self.steps))
        gaps = np.hypot(self.floors(rng), response * np.array(sigmas))
        odd = rng.random(self.steps) < self.outliers
        factors = 1 + rng.pareto(1.5, self.steps)
        return np.where(odd, np.where(rng.random(self.steps) < 0.25, gaps / factors, gaps * factors), gaps)

    def witness(self, gaps: Floats) -> GapTest:
        """What the gap says of a record by which all noise came as planned."""
        steps = [
            DosedStep(step, float(gap), sigma, LEAST_GAP * sigma)
            for step, (gap, sigma) in enumerate(zip(gaps, self.sigmas, strict=True), 1)
        ]
        return GapTest(DoseResponse(steps), steps_off(steps))

    def judged(self, gaps: Floats) -> Verdict:
        """The verdict on a run whose record says that all noise came as planned."""
        sigmas = self.sigmas
        metrics = {step: {GAP: float(gap), METRIC: 0.5} for step, gap in enumerate(gaps, 1)}
        noise = tuple(
            NoiseEvent(step, sigma, 5 if sigma else 0, effective_std=sigma, changed=320, elements=320, source="events")
            for step, sigma in enumerate(sigmas, 1)
        )
        schedule = NoiseSchedule(sigmas, SCHEDULES[self.schedule][0], ("rmsnorm",), "payload", True)
        expected = Expectations(self.steps, (), False, 100, 1, "auto", schedule, True)
        evidence = Evidence(metrics, noise, RunTotals(self.steps, 400, 100))
        return judge(evidence, expected, RunState.FINISHED, arm="aqn")
