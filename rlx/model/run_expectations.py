"""Describe what a finished run must show: steps, validations, noise, weights. A verdict checks the run against this."""

from __future__ import annotations

from dataclasses import dataclass

from rlx.model.expected_noise import NoiseExpectation, NoiseSchedule


@dataclass(frozen=True, slots=True)
class Expectations:
    """What a recipe expects of its run. A verdict compares the log with this, and uses nothing else.

    `metric` is a full metric name or "auto": the val-core key that the log shows. `noise` is None for an arm in which
    no noise may occur. `reports_probability_gap`: the back-end logs the gap between rollout and actor.
    `witness`: the role of the metric that stands in for that gap where this run does not log it; empty for the gap
    itself. `correction`: what training does about samples that rollout and actor differ on; None: nothing.
    `watch`: by what an arm without noise must show that it has none; None where that is not observed.
    `batches`: of the data that a step may take, where the trainer takes several and logs how many; None elsewhere.
    `weights`: what the run records of the weights that it trains and generates with; None: nothing.
    `is_read`: steps and validations are those of the configuration that the log prints, which no plan set.
    `stated`: what the launch of a script expected of it (`--expect`); None: nothing.
    """

    total_steps: int | None
    validation_steps: tuple[int, ...]
    last_step_validated: bool
    validation_items: int | None
    validation_samples: int
    metric: str
    noise: NoiseSchedule | None
    reports_probability_gap: bool
    witness: str = ""
    correction: ExpectedCorrection | None = None
    watch: NoiseExpectation | None = None
    is_read: bool = False
    batches: BatchesAStep | None = None
    weights: WeightExpectation | None = None
    stated: StatedExpectations | None = None

    @property
    def reports_signal(self) -> bool:
        """Return whether the log shows the noise a second time, by the gap or by what stands in for it."""
        return self.reports_probability_gap or bool(self.witness)


@dataclass(frozen=True, slots=True)
class StatedExpectations:
    """What a person expected of a script when it was launched; None: nothing was said.

    `every`: a validation after so many steps and after the last one; 0: none.
    """

    steps: int | None = None
    every: int | None = None
    items: int | None = None

    def __str__(self) -> str:
        each = "1 step" if self.every == 1 else f"{self.every} steps"
        parts = (
            "" if self.steps is None else f"{self.steps} step{'s' * (self.steps != 1)}",
            "" if self.every is None else f"a validation every {each}" if self.every else "no validation",
            "" if self.items is None else f"{self.items} validation item{'s' * (self.items != 1)}",
        )
        return ", ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class BatchesAStep:
    """The batches of its data that a trainer generates for one step: DAPO goes on until enough groups differ.

    From `least` to `most`, both included; `most` is None where the trainer has no limit."""

    least: int = 1
    most: int | None = None

    def __contains__(self, batches: float) -> bool:
        return self.least <= batches and (self.most is None or batches <= self.most)

    def __str__(self) -> str:
        return f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class ExpectedCorrection:
    """The correction of off-policy samples that a plan expects: what training does where rollout and actor differ.

    `weights`, `rejection`: the kind and its threshold, as `token 2.0`; empty where there is none.

    `bypass`: the rollout's probabilities stand in for those of the actor before the update. Two runs with equal
    values treat equal samples alike.
    """

    weights: str = ""
    rejection: str = ""
    bypass: bool = False

    def __str__(self) -> str:
        parts = (
            self.weights and f"importance weights by {self.weights}",
            self.rejection and f"rejection {self.rejection}",
            "bypass" if self.bypass else "",
        )
        return ", ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class WeightExpectation:
    """The records of its weights that a plan expects of a run (rlx/payload/rlx_weights.py).

    `trainers` and `engines`: how many processes record; 0: not known.

    `syncs_each_step`: the weights are sent once before the training and once after each of its steps.
    """

    trainers: int
    engines: int
    syncs_each_step: bool = True
