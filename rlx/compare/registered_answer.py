"""The answer to a registered question: the one test that was fixed before the runs, on one value a run.

Values are in the unit of their metric; what comes out is in points. Nothing here chooses a test by the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import fmean, stdev

from rlx.compare.excluded_runs import ExcludedRun
from rlx.compare.registered_design import Claim, Design, Tested, tested
from rlx.compare.statistic import ALPHA, holm, spread_note
from rlx.model import Finding, Registration
from rlx.model.verdict_rules import RULES

_NO_SPREAD = 1e-13
"""Of the largest value: what rounding leaves of runs that differ by nothing."""


class AnswerKind(StrEnum):
    """The answer in a word.

    yes: better, or no worse than the margin. equivalent: within the margin. no: the contrary is shown, which is worse;
    worse by more than the margin; or apart by more than the margin. cannot_tell: none of these.
    """

    YES = "yes"
    NO = "no"
    EQUIVALENT = "equivalent"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """One treatment against the control, in points. `estimate` is treatment minus control, as it is.

    `low` and `high` bound the interval with the coverage `level`; after Dunnett all intervals hold together with it,
    after Holm each for itself. `p_value` is that of the registered claim, `p_contrary` that of its contrary, both
    corrected for several treatments; None, as the bounds, where the runs are too few or show no spread to judge by.
    `control_runs` and `treatment_runs` are the runs of each arm, `sds` their standard deviations. `spread`: what is to
    be said of unlike spreads, mostly "".
    """

    kind: AnswerKind
    estimate: float
    low: float | None
    high: float | None
    level: float
    p_value: float | None
    p_contrary: float | None
    control_runs: int
    treatment_runs: int
    sds: tuple[float, ...]
    method: str
    spread: str


def answer(design: Design, control: Sequence[float], *treatments: Sequence[float]) -> tuple[ClaimResult, ...]:
    """Answer the registered question for each treatment, in their order, from one value a run.

    Too few runs, or runs without any spread, are "cannot tell". Raises ValueError where an arm has no run, and where
    blocks lack one.
    """
    import numpy as np

    arms = [control, *treatments]
    bare = [_without_test(design, control, arm) for arm in treatments]
    if min(map(len, arms)) < 2:
        return tuple(replace(each, method="no test: an arm has fewer than two runs") for each in bare)
    scale = design.scale if design.higher_is_better else -design.scale
    values = [scale * np.array(arm, float) for arm in arms]
    floor = _NO_SPREAD * max(float(abs(arm).max()) for arm in values)
    found, note = tested(design, values[0], values[1:]), spread_note(arms, design.scale)
    return tuple(
        _answered(design, found, index, replace(each, spread=note)) if found.contrasts[index].error > floor else each
        for index, each in enumerate(bare)
    )


def as_family(answers: Sequence[ClaimResult]) -> tuple[ClaimResult, ...]:
    """Return the answers to one question on several benchmarks, corrected after Holm for being several; intervals stay.

    Without that, five benchmarks tested one by one find a difference in 20 % of cases where there is none.
    """
    where = [index for index, each in enumerate(answers) if each.p_value is not None]
    claimed = dict(zip(where, holm([answers[index].p_value or 0.0 for index in where]), strict=True))
    contrary = dict(zip(where, holm([answers[index].p_contrary or 0.0 for index in where]), strict=True))
    return tuple(
        _held_to(each, claimed[index], contrary[index]) if index in claimed else each
        for index, each in enumerate(answers)
    )


def _held_to(found: ClaimResult, p_value: float, p_contrary: float) -> ClaimResult:
    """Keep the kind if it holds with these p-values."""
    rests_on = p_contrary if found.kind is AnswerKind.NO else p_value
    return replace(
        found,
        kind=found.kind if rests_on < ALPHA else AnswerKind.CANNOT_TELL,
        p_value=p_value,
        p_contrary=p_contrary,
        method=f"{found.method}, Holm over benchmarks",
    )


def _without_test(design: Design, control: Sequence[float], treatment: Sequence[float]) -> ClaimResult:
    return ClaimResult(
        kind=AnswerKind.CANNOT_TELL,
        estimate=design.scale * (fmean(treatment) - fmean(control)),
        low=None,
        high=None,
        level=design.level,
        p_value=None,
        p_contrary=None,
        control_runs=len(control),
        treatment_runs=len(treatment),
        sds=tuple(design.scale * stdev(arm) for arm in (control, treatment) if len(arm) > 1),
        method="no test: the runs of each arm have equal values and show no spread to judge by",
        spread="",
    )


def _answered(design: Design, found: Tested, index: int, bare: ClaimResult) -> ClaimResult:
    test, half = found.contrasts[index], float(found.half[index])
    p_value, contrary = float(found.p_values[index]), float(found.p_contrary[index])
    return replace(
        bare,
        kind=_kind(design.claim, float(test.difference), p_value, contrary),
        low=bare.estimate - half,
        high=bare.estimate + half,
        p_value=p_value,
        p_contrary=contrary,
        method=design.words(len(found.contrasts), float(test.df)),
    )


def _kind(claim: Claim, better: float, p_value: float, contrary: float) -> AnswerKind:
    if claim is Claim.SUPERIORITY:
        return AnswerKind.CANNOT_TELL if p_value >= ALPHA else AnswerKind.YES if better > 0 else AnswerKind.NO
    if p_value < ALPHA:
        return AnswerKind.EQUIVALENT if claim is Claim.EQUIVALENCE else AnswerKind.YES
    return AnswerKind.NO if contrary < ALPHA else AnswerKind.CANNOT_TELL


@dataclass(frozen=True, slots=True)
class RegisteredRun:
    """A run that was registered. `values`: its primary value by metric, in the metric's unit; empty where it lacks one.

    `run_id` is empty where nothing stands for it; `why` says why what does is not its first launch, "" where it is.
    `lacks`: why it has no value that counts, "" where it has. `is_open`: what it lacks may still come. `is_unverified`:
    its value counts, and must be reported with that word.
    """

    arm: str
    seed: int
    run_id: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    lacks: str = ""
    is_open: bool = False
    is_unverified: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class RegisteredAnswer:
    """The answer of one metric for one treatment. `is_share`: its values are shares, so that differences are points.

    `factors`: what its arm differs in from the control by declaration.
    """

    metric: str
    treatment: str
    is_share: bool
    answer: ClaimResult
    factors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RegisteredResult:
    """A registered question with the answer of its runs. Whether a run counts is not a choice once it is known.

    `runs`: every registered run, by seed in the order of their launch. `objection`: why the arms cannot be compared, ""
    where they can. `answers`: one for each metric and treatment, in the order of the registration, metric by metric;
    none before all runs are in, nor where one of them has no value that counts, or there is an objection.
    `exploratory`: then the answers from the runs that have values. `left_out`: the runs of the experiment that are not
    registered. `rules`: the version of the rules by which the runs were judged. `notes`: what is to be read
    beside the answer, such as runs that are not here.
    """

    registration: Registration
    runs: tuple[RegisteredRun, ...]
    answers: tuple[RegisteredAnswer, ...] = ()
    exploratory: tuple[RegisteredAnswer, ...] = ()
    objection: str = ""
    left_out: tuple[ExcludedRun, ...] = ()
    rules: int = RULES
    notes: tuple[Finding, ...] = ()

    @property
    def is_open(self) -> bool:
        """Tell whether a registered run may still come in: until then no p-value and no interval is shown."""
        return any(run.is_open for run in self.runs)

    @property
    def lacking(self) -> tuple[RegisteredRun, ...]:
        """The registered runs without a value that counts, those that may still get one included."""
        return tuple(run for run in self.runs if run.lacks)

    @property
    def withheld(self) -> str:
        """Why no test of these runs is shown yet; "" where tests may be shown."""
        if not self.is_open:
            return ""
        there = sum(1 for run in self.runs if not run.lacks)
        return (
            f"{there} of {len(self.runs)} runs registered as experiment {self.registration.short} are in, "
            "and testing before all of them have ended inflates false positives"
        )
