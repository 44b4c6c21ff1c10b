"""What `compare` returns. Immutable; numbers of every run are here, whether or not they may be reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlx.compare.align import Point, StepRow
from rlx.compare.config_diff import ConfigDifference
from rlx.compare.items import ItemCount
from rlx.compare.proportions import TwoProportions
from rlx.evidence import Verdict, VerdictStatus
from rlx.plan import Finding, RunState, Severity


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run with its validation series. `label` is the shortest name that no other compared run has.

    `core_metric` is the validation metric that its own log shows, which need not be the one compared.
    """

    run_id: str
    label: str
    name: str
    arm: str
    seed: int
    state: RunState
    verdict: Verdict
    core_metric: str | None
    items: ItemCount
    series: Mapping[int, float]
    peak: Point | None
    final: Point | None

    @property
    def finished(self) -> bool:
        return self.state.is_terminal

    @property
    def struck(self) -> bool:
        """Whether its numbers are no result. What is missing in a run that goes on may still come."""
        broken = self.verdict.status is VerdictStatus.INVALID
        return broken or (self.finished and self.verdict.status is VerdictStatus.INCOMPLETE)


@dataclass(frozen=True, slots=True)
class Pair:
    """A control run and one treatment run; `step` is the last at which both were validated."""

    control: ComparedRun
    treatment: ComparedRun
    metric: str
    step: int | None
    differences: tuple[ConfigDifference, ...]

    @property
    def runs(self) -> tuple[ComparedRun, ComparedRun]:
        return self.control, self.treatment

    @property
    def finished(self) -> bool:
        return all(run.finished for run in self.runs)

    @property
    def items(self) -> ItemCount:
        """n of both, by the words of each where they differ. Where they differ in n, RLX902 is there instead."""
        control, treatment = self.control.items, self.treatment.items
        if control == treatment:
            return control
        words = f"{control.source} ({self.control.label}) and {treatment.source} ({self.treatment.label})"
        return ItemCount(control.n or treatment.n, words)


@dataclass(frozen=True, slots=True)
class Contrast:
    """One treatment against the control at their last common validated step.

    `test` is None where no p-value may be given; `no_test` then says why. `p_value` is that of the test, corrected
    where there are several treatments. `reportable`: both runs finished, neither invalid nor incomplete, comparable.
    """

    treatment: str
    step: int | None
    control_value: float | None
    treatment_value: float | None
    difference: float | None
    test: TwoProportions | None
    no_test: str
    p_value: float | None
    differences: tuple[ConfigDifference, ...]
    findings: tuple[Finding, ...]
    reportable: bool
    sentences: tuple[str, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`steps` holds one row a validated step, with the values of the control and then of each treatment.

    `is_share`: the values are shares of the items, so that their differences are points.
    """

    metric: str
    is_share: bool
    control: ComparedRun
    treatments: tuple[ComparedRun, ...]
    steps: tuple[StepRow, ...]
    contrasts: tuple[Contrast, ...]

    @property
    def runs(self) -> tuple[ComparedRun, ...]:
        return self.control, *self.treatments

    @property
    def interim(self) -> bool:
        return not all(run.finished for run in self.runs)

    @property
    def reportable(self) -> bool:
        return all(contrast.reportable for contrast in self.contrasts)

    @property
    def verified(self) -> bool:
        return all(run.verdict.status is VerdictStatus.VALID for run in self.runs)
