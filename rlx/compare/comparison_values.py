"""The values that `compare` returns. Immutable; numbers of every run are here, whether or not they may be reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rlx.compare.alignment import StepRow
from rlx.compare.arms import ComparedArm, ComparedRun, same_seed
from rlx.compare.difference_areas import CHAT_TEMPLATE, MODEL_WEIGHTS, ConfigDifference, DifferenceArea
from rlx.compare.equal_runs import EqualRuns
from rlx.compare.evaluation_conditions import Broken, Condition, Measure
from rlx.compare.excluded_runs import ExcludedRun, RelatedExperiment
from rlx.compare.factors import factors_of
from rlx.compare.metric import ItemCount
from rlx.compare.registered_answer import RegisteredResult
from rlx.compare.statistic import Statistic
from rlx.errors import ExitCode
from rlx.evidence import VerdictStatus
from rlx.model import Finding, Severity
from rlx.model.verdict_rules import RULES

COLLAPSED = "RLX931"
"""The finding that the control collapsed before the step that is compared."""


class CopiedOutput(NamedTuple):
    """Two validations with the same unique ids, each by the label of its run and its step."""

    label: str
    step: int
    other_label: str
    other_step: int

    def __str__(self) -> str:
        return f"step {self.other_step} of {self.other_label} and step {self.step} of {self.label}"


@dataclass(frozen=True, slots=True)
class Pair:
    """A control arm and one treatment arm; `step` is the last at which every run of both was validated.

    `copies`: labels of two runs that are one run. `equal`: others that trained alike. `copied_outputs`: validations of
    two runs whose outputs are one file. `same_items`: it is known that both checkpoints were validated on the same
    items, so that n of one is n of the other. `unrecorded`: what runs, by their labels, did not record of their
    evaluation. `measure` says which differences are of the evaluation. `withheld`: why no test is shown yet, whatever
    the runs are; "" where one may be. `rules`: the version of the rules that the runs were judged by.
    """

    control: ComparedArm
    treatment: ComparedArm
    metric: str
    step: int | None
    differences: tuple[ConfigDifference, ...]
    copies: tuple[tuple[str, str], ...] = ()
    same_items: bool = False
    measure: Measure = field(default_factory=lambda: Measure(""))
    unrecorded: Mapping[Condition, tuple[str, ...]] = field(default_factory=dict)
    withheld: str = ""
    equal: tuple[EqualRuns, ...] = ()
    rules: int = RULES
    copied_outputs: tuple[CopiedOutput, ...] = ()

    @property
    def arms(self) -> tuple[ComparedArm, ComparedArm]:
        return self.control, self.treatment

    @property
    def runs(self) -> tuple[ComparedRun, ...]:
        return self.control.runs + self.treatment.runs

    @property
    def factors(self) -> tuple[str, ...]:
        """What the two arms differ in by declaration."""
        return factors_of(self.differences)

    @property
    def broken(self) -> Broken:
        """Evaluation differences by condition, declared or not; without the chat template where the models differ."""
        own = self.of_other_models
        return self.measure.broken(item for item in self.differences if not (own and item.key == CHAT_TEMPLATE))

    @property
    def of_other_models(self) -> bool:
        """Tell whether whole systems are compared that began with other weights."""
        other = {item.key for item in self.differences if item.area is not DifferenceArea.INCIDENTAL}
        weights = any(key.startswith(MODEL_WEIGHTS) for key in other)
        return self.measure.systems and (weights or ("model.path" in other and CHAT_TEMPLATE not in other))

    @property
    def finished(self) -> bool:
        return all(run.finished for run in self.runs)

    @property
    def unverified(self) -> tuple[str, ...]:
        """Labels of the runs that are unverified."""
        return _unverified(self.runs)

    @property
    def of_one_name(self) -> bool:
        """Tell whether all runs are called the same, but for their seeds."""
        return len({run.name.removesuffix(f"-s{run.seed}") for run in self.runs}) == 1

    @property
    def has_seeds(self) -> bool:
        """Tell whether each arm has runs of several seeds: only then anything follows about the treatment."""
        return all(arm.has_seeds for arm in self.arms)

    @property
    def checkpoints(self) -> tuple[ComparedRun, ComparedRun]:
        """One run of each arm: those with a seed in common, else the first of each. Never chosen by their values."""
        return same_seed(self.control.runs, self.treatment.runs)

    @property
    def items(self) -> ItemCount:
        """Return the number of items `n` of the tested runs, and its source. If runs differ in it, RLX902 says so.

        `n` is None if a run has none: nothing shows that it was validated on as many items as the others.
        """
        counts: dict[ItemCount, list[str]] = {}
        for run in self.runs if self.has_seeds else self.checkpoints:
            counts.setdefault(run.items, []).append(run.label)
        if len(counts) == 1:
            return next(iter(counts))
        words = " and ".join(f"{count.source} ({', '.join(labels)})" for count, labels in counts.items())
        known = {count.n for count in counts if count.n is not None}
        if all(count.n for count in counts):
            return ItemCount(min(known), words)
        if known and self.same_items and not self.has_seeds:
            return ItemCount(min(known), f"{words}; both were validated on the same file")
        return ItemCount(None, words)


@dataclass(frozen=True, slots=True)
class Contrast:
    """One treatment against the control at the last step that all runs of both arms have.

    Values and their difference are those of the arms: means over their runs. `test` is None where no p-value may be
    given; `no_test` then says why. `p_value` is that of the test, corrected where there are several treatments.
    `checkpoints`: the ids of the two runs that a test of checkpoints is about, control first; empty for a test of the
    treatment. `reportable`: all runs finished and valid, comparable. `factors`: what the arms differ in by declaration,
    to which a difference belongs together; `shown`: how each arm shows each of them.
    """

    treatment: str
    step: int | None
    control_value: float | None
    treatment_value: float | None
    difference: float | None
    test: Statistic | None
    no_test: str
    p_value: float | None
    checkpoints: tuple[str, ...]
    differences: tuple[ConfigDifference, ...]
    findings: tuple[Finding, ...]
    reportable: bool
    sentences: tuple[str, ...]
    factors: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    def is_result(self, control: ComparedArm, treatment: ComparedArm) -> bool:
        """Tell whether the difference of its two arms stands: all runs finished, none excluded, comparable."""
        return not self.errors and all(arm.finished and not arm.is_excluded for arm in (control, treatment))

    @property
    def is_of_collapse(self) -> bool:
        """Tell whether it is the difference from a control that collapsed."""
        return any(finding.id == COLLAPSED for finding in self.findings)

    @property
    def objection(self) -> str:
        """Return the word that excludes a difference not caused by the treatment; "" where the arms are comparable."""
        return "not comparable" if self.errors else ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """`steps` holds one row a validated step, with the value of the control arm and then of each treatment arm.

    `is_share`: the values are shares of the items, so that their differences are points. `left_out`: the runs of the
    same experiment that are not in here. `others`: related experiments, whose treatment is of `treatment_kind`,
    too. `registered`: what the registered experiment of these runs answers, from all of its runs, whichever of them are
    in here; None where they are of none, or of several. `withheld`: why no test and no interval is shown yet; "" where
    one may be. `systems`: whole systems are compared, so that no difference is declared and no setting credited.
    """

    metric: str
    is_share: bool
    control: ComparedArm
    treatments: tuple[ComparedArm, ...]
    steps: tuple[StepRow, ...]
    contrasts: tuple[Contrast, ...]
    left_out: tuple[ExcludedRun, ...] = ()
    treatment_kind: str = ""
    others: tuple[RelatedExperiment, ...] = ()
    registered: RegisteredResult | None = None
    withheld: str = ""
    systems: bool = False

    @property
    def arms(self) -> tuple[ComparedArm, ...]:
        return self.control, *self.treatments

    @property
    def runs(self) -> tuple[ComparedRun, ...]:
        return tuple(run for arm in self.arms for run in arm.runs)

    @property
    def interim(self) -> bool:
        return not all(run.finished for run in self.runs)

    @property
    def unverified(self) -> tuple[str, ...]:
        """Labels of the runs that are unverified."""
        return _unverified(self.runs)

    @property
    def verified(self) -> bool:
        """Tell whether every run is valid, those that a registered answer rests on, too."""
        registered = self.registered.runs if self.registered else ()
        return all(run.verdict.status is VerdictStatus.VALID for run in self.runs) and not any(
            run.is_unverified for run in registered
        )

    @property
    def reportable(self) -> bool:
        """Tell whether the claim, or the values of a single arm, may be reported: exit code 0 of `rlx compare`."""
        return self.outcome() is ExitCode.OK

    def outcome(self, *, allow_unverified: bool = False) -> ExitCode:
        """Return the exit code of `rlx compare` and `rlx report`; what waiting cannot fix comes first.

        `allow_unverified`: whether runs of which nothing worse is known than that they are unverified are accepted,
        and a control that collapsed.
        """
        if any(run.is_excluded for run in self.runs) or any(contrast.errors for contrast in self.contrasts):
            return ExitCode.NOT_VERIFIED
        registered = self.registered
        if registered and not (registered.is_open or registered.answers):
            return ExitCode.NOT_VERIFIED
        if self.interim or self.withheld or (registered and registered.is_open):
            return ExitCode.NOT_FINISHED
        is_sound = self.verified and not any(contrast.is_of_collapse for contrast in self.contrasts)
        return ExitCode.OK if is_sound or allow_unverified else ExitCode.NOT_VERIFIED

    def difference_exclusions(self) -> tuple[str, ...]:
        """For each treatment the word that excludes a difference of its values from the control's; "" for none."""
        return tuple(
            arm.exclusion or self.control.exclusion or contrast.objection
            for arm, contrast in zip(self.treatments, self.contrasts, strict=True)
        )

    def difference_qualifiers(self) -> tuple[str, ...]:
        """For each treatment the word that must be read before such a difference: its exclusion, else a run's word."""
        return tuple(
            exclusion or arm.word or self.control.word
            for arm, exclusion in zip(self.treatments, self.difference_exclusions(), strict=True)
        )


def _unverified(runs: Sequence[ComparedRun]) -> tuple[str, ...]:
    return tuple(run.label for run in runs if run.verdict.status is VerdictStatus.UNVERIFIED)
