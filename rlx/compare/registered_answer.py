"""The answer to a registered question: the one test that was fixed before the runs, on one value a run.

Values are in the unit of their metric; what comes out is in points. Nothing here chooses a test by the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean, stdev

from rlx.compare.error_rates import ALPHA, holm
from rlx.compare.registered_design import Claim, Design
from rlx.compare.registered_tests import Tested, tested
from rlx.compare.spreads import spread_note

_NO_SPREAD = 1e-13
"""Of the largest value: what rounding leaves of runs that differ by nothing."""


class Kind(StrEnum):
    """The answer in a word.

    yes: better, or no worse than the margin. equivalent: within the margin. no: the contrary is shown, which is worse;
    worse by more than the margin; or apart by more than the margin. cannot_tell: none of these.
    """

    YES = "yes"
    NO = "no"
    EQUIVALENT = "equivalent"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True, slots=True)
class Answer:
    """One treatment against the control, in points. `estimate` is treatment minus control, as it is.

    `low` and `high` bound the interval with the coverage `level`; after Dunnett all intervals hold together with it,
    after Holm each for itself. `p_value` is that of the registered claim, `p_contrary` that of its contrary, both
    corrected for several treatments; None, as the bounds, where the runs are too few or show no spread to judge by.
    `control_runs` and `treatment_runs` are the runs of each arm, `sds` their standard deviations. `spread`: what is to
    be said of unlike spreads, mostly "".
    """

    kind: Kind
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


def answer(design: Design, control: Sequence[float], *treatments: Sequence[float]) -> tuple[Answer, ...]:
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


def as_family(answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """The answers to one question on several benchmarks, corrected after Holm for being several; intervals stay.

    Without that, five benchmarks looked at one by one find something in 20 % of cases where nothing is.
    """
    where = [index for index, each in enumerate(answers) if each.p_value is not None]
    claimed = dict(zip(where, holm([answers[index].p_value or 0.0 for index in where]), strict=True))
    contrary = dict(zip(where, holm([answers[index].p_contrary or 0.0 for index in where]), strict=True))
    return tuple(
        _held_to(each, claimed[index], contrary[index]) if index in claimed else each
        for index, each in enumerate(answers)
    )


def _held_to(found: Answer, p_value: float, p_contrary: float) -> Answer:
    """Keep the kind if it holds with these p-values."""
    rests_on = p_contrary if found.kind is Kind.NO else p_value
    return replace(
        found,
        kind=found.kind if rests_on < ALPHA else Kind.CANNOT_TELL,
        p_value=p_value,
        p_contrary=p_contrary,
        method=f"{found.method}, Holm over benchmarks",
    )


def _without_test(design: Design, control: Sequence[float], treatment: Sequence[float]) -> Answer:
    return Answer(
        kind=Kind.CANNOT_TELL,
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


def _answered(design: Design, found: Tested, index: int, bare: Answer) -> Answer:
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


def _kind(claim: Claim, better: float, p_value: float, contrary: float) -> Kind:
    if claim is Claim.SUPERIORITY:
        return Kind.CANNOT_TELL if p_value >= ALPHA else Kind.YES if better > 0 else Kind.NO
    if p_value < ALPHA:
        return Kind.EQUIVALENT if claim is Claim.EQUIVALENCE else Kind.YES
    return Kind.NO if contrary < ALPHA else Kind.CANNOT_TELL
