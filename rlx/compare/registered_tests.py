"""The tests of a registered design: p-values and intervals of every treatment. Arrays work, too.

Values are arrays in points, of which more is better; their last axis is the runs of an arm, leading axes are
replications of a simulation and are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlx.compare import arm_contrasts, dunnett, margin_tests
from rlx.compare.error_rates import ALPHA
from rlx.compare.registered_design import Claim, Design
from rlx.compare.student import TTest


@dataclass(frozen=True, slots=True)
class Tested:
    """One entry a treatment: the contrast, the p-value of the claim and that of its contrary, and half the interval."""

    contrasts: list[TTest]
    p_values: list[Any]
    p_contrary: list[Any]
    half: list[Any]


def tested(design: Design, control: Any, treatments: Sequence[Any]) -> Tested:
    """Hold each treatment against the control as the design says.

    Dunnett's p-values are integrals and cost milliseconds each; `dunnett_limit` decides many at once.
    """
    if design.is_dunnett(len(treatments)):
        return _by_dunnett(design, control, treatments)
    contrasts = contrasts_of(design, control, treatments)
    p_values, contrary = [_claimed(design, each) for each in contrasts], [_contrary(design, each) for each in contrasts]
    if len(contrasts) > 1:
        p_values, contrary = corrected(p_values), corrected(contrary)
    return Tested(contrasts, p_values, contrary, [half_width(each, design.level) for each in contrasts])


def contrasts_of(design: Design, control: Any, treatments: Sequence[Any]) -> list[TTest]:
    """The differences with the standard errors of the design. Raises ValueError where blocks lack a run."""
    if design.is_dunnett(len(treatments)):
        contrast = arm_contrasts.pooled_in_blocks if design.blocked else arm_contrasts.pooled
    else:
        contrast = arm_contrasts.separate_in_blocks if design.blocked else arm_contrasts.separate
    return contrast(control, treatments)


def half_width(test: TTest, level: float) -> Any:
    """Half the interval of this coverage, in the unit of the test."""
    from scipy.special import stdtrit

    return stdtrit(test.df, (1 + level) / 2) * test.error


def corrected(p_values: Sequence[Any]) -> list[Any]:
    """Holm's (1979) correction over the treatments, of numbers or of arrays of one shape."""
    import numpy as np

    stacked = np.stack([np.asarray(each, float) for each in p_values])
    order = stacked.argsort(axis=0)
    steps = np.arange(len(p_values), 0, -1.0).reshape(-1, *[1] * (stacked.ndim - 1))
    raised = np.minimum(1.0, np.maximum.accumulate(np.take_along_axis(stacked, order, 0) * steps, axis=0))
    result = np.empty_like(stacked)
    np.put_along_axis(result, order, raised, 0)
    return list(result)


def dunnett_limit(design: Design, sizes: Sequence[int]) -> float:
    """The statistic that Dunnett's test must exceed at 5 %. `sizes`: runs of each arm, the control first."""
    return dunnett.critical(
        ALPHA, dunnett_df(design, sizes), dunnett.loadings(sizes[0], sizes[1:]), sides(design.claim, len(sizes) - 1)
    )


def dunnett_df(design: Design, sizes: Sequence[int]) -> float:
    """The degrees of freedom of the pooled variance."""
    treatments = len(sizes) - 1
    return float((sizes[0] - 1) * treatments if design.blocked else sum(sizes) - len(sizes))


def sides(claim: Claim, treatments: int) -> tuple[int, ...]:
    """The sides of the claim's statistics, as `dunnett` takes them."""
    if claim is Claim.SUPERIORITY:
        return dunnett.TWO_SIDED
    return dunnett.same_side(treatments) if claim is Claim.NON_INFERIORITY else dunnett.opposite_sides(treatments)


def claim_statistic(design: Design, test: TTest) -> Any:
    """How many standard errors the difference lies on the claim's side, which `dunnett_limit` bounds."""
    import numpy as np

    if design.margin is None:
        distance = abs(test.difference)
    elif design.claim is Claim.NON_INFERIORITY:
        distance = test.difference + design.margin
    else:
        distance = design.margin - abs(test.difference)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.divide(distance, test.error)


def _by_dunnett(design: Design, control: Any, treatments: Sequence[Any]) -> Tested:
    contrasts = contrasts_of(design, control, treatments)
    sizes = [arm.shape[-1] for arm in (control, *treatments)]
    df, shares = dunnett_df(design, sizes), dunnett.loadings(sizes[0], sizes[1:])
    own, limit = sides(design.claim, len(treatments)), dunnett_limit(design, sizes)
    statistics = [claim_statistic(design, each) for each in contrasts]
    p_values = [dunnett.p_value(each, df, shares, own) for each in statistics]
    contrary = p_values if design.margin is None else [dunnett.p_value(-each, df, shares, own) for each in statistics]
    return Tested(contrasts, p_values, contrary, [limit * each.error for each in contrasts])


def _claimed(design: Design, test: TTest) -> Any:
    """The p-value of the claim, uncorrected."""
    if design.margin is None:
        return test.p_value
    if design.claim is Claim.NON_INFERIORITY:
        return margin_tests.p_above(test, -design.margin)
    return margin_tests.p_within(test, design.margin)


def _contrary(design: Design, test: TTest) -> Any:
    """The p-value of what would refute the claim, uncorrected; of superiority it is the same two-sided one."""
    if design.margin is None:
        return test.p_value
    if design.claim is Claim.NON_INFERIORITY:
        return margin_tests.p_below(test, -design.margin)
    return margin_tests.p_beyond(test, design.margin)
