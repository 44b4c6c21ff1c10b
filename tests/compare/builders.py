"""Judged runs built from values: what a log would show, and the verdict that the evidence room would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rlx.compare import Comparison, Contrast, compare
from rlx.evidence import Evidence, JudgedRun, RunTotals, Verdict, VerdictStatus
from rlx.model import Expectations, LaunchPlan, NoiseSchedule, PlannedFile, Registration, RunState, Site
from rlx.model.run_dir import LAUNCH_FILE

METRIC = "val-core/gsm8k/acc/mean@1"


def one_run_each(control: JudgedRun, treatments: Sequence[JudgedRun], metric: str | None = None) -> Comparison:
    return compare([control], [[run] for run in treatments], metric)


@dataclass(frozen=True)
class RunBuilder:
    """One run of the recipe below. `series` are the values of `metric` by step; `rows` is n by the log. `metrics`
    stands for all of the log instead."""

    arm: str = "baseline"
    series: Mapping[int, float] = field(default_factory=dict)
    metric: str = METRIC
    more_metrics: Mapping[str, float] = field(default_factory=dict)
    planned_rows: int | None = 1319
    rows: int | None = 1319
    status: VerdictStatus = VerdictStatus.VALID
    state: RunState = RunState.FINISHED
    seed: int = 1
    recipe: Mapping[str, Any] = field(default_factory=dict)
    treatment: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    noise: NoiseSchedule | None = None
    run_id: str = ""
    command: tuple[str, ...] = ()
    metrics: Mapping[int, Mapping[str, float]] | None = None
    registration: Registration | None = None

    def judged(self) -> JudgedRun:
        return JudgedRun(
            run_id=self.run_id or f"gsm8k-{self.arm}-s{self.seed}-20261120-120000-abcd",
            name=f"gsm8k-{self.arm}-s{self.seed}",
            arm=self.arm,
            seed=self.seed,
            plan=self.plan(),
            evidence=Evidence(
                metrics=self.metrics or self._metrics(),
                totals=RunTotals(validation_rows=self.rows),
            ),
            verdict=Verdict(self.status, (), f"{self.status.value}, in a sentence", ""),
            state=self.state,
            provenance=self.provenance,
        )

    def _metrics(self) -> Mapping[int, Mapping[str, float]]:
        return {step: {self.metric: value, **self.more_metrics} for step, value in self.series.items()}

    def plan(self) -> LaunchPlan:
        data = {"train": "~/gsm8k/train.parquet", "val": "~/gsm8k/test.parquet"}
        return LaunchPlan(
            name="gsm8k",
            arm=self.arm,
            control="baseline",
            seed=self.seed,
            backend="verl",
            backend_version="0.9.1",
            site=Site(),
            command=self.command,
            env={},
            secrets=(),
            files=(PlannedFile(LAUNCH_FILE, "", 0o700),),
            expectations=self._expectations(),
            treatment=self.treatment,
            recipe={"name": "gsm8k", "data": data, "aqn": None, "seed": self.seed, **self.recipe},
            device_kind="cpu",
            devices=1,
            registration=self.registration,
        )

    def _expectations(self) -> Expectations:
        return Expectations(
            total_steps=max(self.series, default=None),
            validation_steps=tuple(self.series),
            last_step_validated=True,
            validation_items=self.planned_rows,
            validation_samples=1,
            metric="auto",
            noise=self.noise,
            reports_probability_gap=True,
        )


LR_CONTROL = RunBuilder(recipe={"train": {"lr": 1e-6}})
LR_TREATMENT = RunBuilder(arm="fast", recipe={"train": {"lr": 2e-6}}, treatment=("train.lr",))


def arm(builder: RunBuilder, finals: Sequence[float], **changes: Any) -> list[JudgedRun]:
    """One run a value at step 6, with seeds from 1."""
    return [
        replace(builder, seed=seed, series={0: 0.1, 6: final}, **changes).judged()
        for seed, final in enumerate(finals, start=1)
    ]


def only(comparison: Comparison) -> Contrast:
    (contrast,) = comparison.contrasts
    return contrast
