"""The design of a registered question: its test as fixed before the runs, p-values, intervals, and power.

Values are arrays in points, of which more is better; their last axis is the runs of an arm, leading axes are
replications of a simulation and are kept. For the power, effects, margins and standard deviations are in points, and
the spread is that between seeds of one arm. The power is that of the test itself, by integrating over the spreads that
the runs may show: the noncentral t of textbooks gives 80 % where Welch's test with three seeds per arm reaches 70 %.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rlx.compare import dunnett
from rlx.compare.dunnett import spread_nodes
from rlx.compare.seed_test import pooled, pooled_in_blocks, separate, separate_in_blocks
from rlx.compare.statistic import ALPHA, POWER, TTest, p_above, p_below, p_beyond, p_within
from rlx.model import Registration

MOST_RUNS = 1000
_BISECTIONS = 50
_WIDEST = 1e3
"""In standard deviations: no effect is looked for beyond it."""


class Claim(StrEnum):
    """The claim that a registered test is about."""

    SUPERIORITY = "superiority"
    NON_INFERIORITY = "non-inferiority"
    EQUIVALENCE = "equivalence"


class MultiplicityCorrection(StrEnum):
    """The rule for several treatments against one control."""

    DUNNETT = "dunnett"
    HOLM = "holm"


@dataclass(frozen=True, slots=True)
class Design:
    """The registered test, at 5 %: two-sided for superiority, one-sided for a margin.

    `margin` in points, positive, for non-inferiority and equivalence. `blocked`: the runs of an arm stand in the order
    of their blocks, each of which has every arm once. `scale`: points in a unit of the values, 100 for shares. Raises
    ValueError for a margin that is missing, not needed, or not positive.
    """

    claim: Claim = Claim.SUPERIORITY
    margin: float | None = None
    several: MultiplicityCorrection = MultiplicityCorrection.DUNNETT
    blocked: bool = False
    scale: float = 100.0
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        needs = self.claim is not Claim.SUPERIORITY
        if needs != (self.margin is not None) or (self.margin is not None and not self.margin > 0):
            raise ValueError(f"{self.claim} {'needs a positive margin' if needs else 'has no margin'}")

    @property
    def level(self) -> float:
        """The coverage of the interval that matches the test: 95 %; or 90 %, whose ends are one-sided 95 % bounds."""
        return 1 - ALPHA if self.claim is Claim.SUPERIORITY else 1 - 2 * ALPHA

    def is_dunnett(self, treatments: int) -> bool:
        """Tell whether all arms share one variance; a single treatment has nothing to be corrected for."""
        return treatments > 1 and self.several is MultiplicityCorrection.DUNNETT

    def words(self, treatments: int, df: float) -> str:
        """Name the test: `Welch's t test, 7.6 degrees of freedom`."""
        own = "paired t test over blocks" if self.blocked else "Welch's t test"
        of_all = f"Dunnett's test of {treatments} treatments, pooled variance{' within blocks' if self.blocked else ''}"
        name = of_all if self.is_dunnett(treatments) else own
        holm = f", Holm over {treatments} treatments" if treatments > 1 and not self.is_dunnett(treatments) else ""
        return f"{name}{holm}{self._margin_words()}, {df:.1f} degrees of freedom"

    def _margin_words(self) -> str:
        sides = {Claim.NON_INFERIORITY: "one-sided", Claim.EQUIVALENCE: "two one-sided tests (TOST)"}
        return f", {sides[self.claim]} against a margin of {self.margin:g} points" if self.claim in sides else ""


def registered_design(asked: Registration, is_share: bool) -> Design:
    """Return the test that a registration fixes. `is_share`: its metric is a share, and its margin in points of it."""
    return Design(
        claim=Claim(asked.test),
        margin=asked.margin,
        several=MultiplicityCorrection(asked.several),
        blocked=asked.is_paired,
        scale=100.0 if is_share else 1.0,
    )


@dataclass(frozen=True, slots=True)
class Tested:
    """One entry a treatment: the contrast, the p-value of the claim and that of its contrary, and half the interval."""

    contrasts: list[TTest]
    p_values: list[Any]
    p_contrary: list[Any]
    half: list[Any]


def tested(design: Design, control: Any, treatments: Sequence[Any]) -> Tested:
    """Test each treatment against the control as the design says.

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
    """Return the differences with the standard errors of the design. Raises ValueError where blocks lack a run."""
    if design.is_dunnett(len(treatments)):
        contrast = pooled_in_blocks if design.blocked else pooled
    else:
        contrast = separate_in_blocks if design.blocked else separate
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
    """Return the statistic that Dunnett's test must exceed at 5 %. `sizes`: runs of each arm, the control first."""
    return dunnett.critical(
        ALPHA, dunnett_df(design, sizes), dunnett.loadings(sizes[0], sizes[1:]), sides(design.claim, len(sizes) - 1)
    )


def dunnett_df(design: Design, sizes: Sequence[int]) -> float:
    """Return the degrees of freedom of the pooled variance."""
    treatments = len(sizes) - 1
    return float((sizes[0] - 1) * treatments if design.blocked else sum(sizes) - len(sizes))


def sides(claim: Claim, treatments: int) -> tuple[int, ...]:
    """Return the sides of the claim's statistics, as `dunnett` takes them."""
    if claim is Claim.SUPERIORITY:
        return dunnett.TWO_SIDED
    return dunnett.same_side(treatments) if claim is Claim.NON_INFERIORITY else dunnett.opposite_sides(treatments)


def claim_statistic(design: Design, test: TTest) -> Any:
    """Return how many standard errors the difference is on the claim's side, which `dunnett_limit` bounds."""
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
    """Return the p-value of the claim, uncorrected."""
    if design.margin is None:
        return test.p_value
    if design.claim is Claim.NON_INFERIORITY:
        return p_above(test, -design.margin)
    return p_within(test, design.margin)


def _contrary(design: Design, test: TTest) -> Any:
    """Return the p-value of what would refute the claim, uncorrected; of superiority it is the same two-sided one."""
    if design.margin is None:
        return test.p_value
    if design.claim is Claim.NON_INFERIORITY:
        return p_below(test, -design.margin)
    return p_beyond(test, design.margin)


@dataclass(frozen=True, slots=True)
class _Errors:
    """The standard errors that the runs may show, and how likely each is.

    `true` is the standard error of the difference; `reach` the distance from 0 at which each observed one rejects, in
    the shape of `weights`.
    """

    true: float
    reach: Any
    weights: Any


def power(design: Design, effect: float, sd: float, runs: int, treatments: int = 1) -> float:
    """Return the chance that the test shows its claim of one treatment whose true difference is `effect`.

    `effect`: treatment minus control, where more is better. Of several treatments it is the chance for this one, after
    Dunnett or with Holm's first and strictest step. `sd` of 0 shows everything. Raises ValueError for fewer than two
    runs.
    """
    if runs < 2:
        raise ValueError(f"{runs} runs an arm have no spread")
    if sd <= 0:
        return float(_is_true(design, effect))
    return _shown(design, effect, _errors(design, sd, runs, treatments))


def smallest_effect(design: Design, sd: float, runs: int, treatments: int = 1) -> float:
    """Return the true difference that superiority shows with 80 % power, in points. The margin does not matter."""
    errors = _errors(Design(several=design.several, blocked=design.blocked), sd, runs, treatments)
    return _least(lambda effect: _shown(Design(), effect, errors), _WIDEST * sd)


def smallest_margin(design: Design, sd: float, runs: int, treatments: int = 1, effect: float = 0.0) -> float:
    """Return the margin that non-inferiority or equivalence shows with 80 % power where the true difference is
    `effect`, in points.
    """
    errors = _errors(design, sd, runs, treatments)

    def with_margin(margin: float) -> float:
        return _shown(Design(design.claim, margin), effect, errors)

    return _least(with_margin, _WIDEST * sd + abs(effect))


def runs_for(design: Design, effect: float, sd: float, treatments: int = 1) -> int | None:
    """Return the runs an arm with which the test shows its claim with 80 % power; None for more than 1000."""
    few, many = 1, 2
    while power(design, effect, sd, many, treatments) < POWER:
        if many >= MOST_RUNS:
            return None
        few, many = many, min(2 * many, MOST_RUNS)
    while many - few > 1:
        middle = (few + many) // 2
        enough = power(design, effect, sd, middle, treatments) >= POWER
        few, many = (few, middle) if enough else (middle, many)
    return many


def textbook_power(design: Design, effect: float, sd: float, runs: int) -> float:
    """Return the power of Student's test with 2n - 2 degrees of freedom, for one treatment: noncentral t.

    Source: Cohen (1988), Statistical Power Analysis, chapter 2; for equivalence the usual lower bound, one less than
    the powers of both one-sided tests (Julious 2004, Sample sizes for clinical trials with normal data, section 5.2).
    """
    from scipy.stats import nct, t

    df, error = (1 if design.blocked else 2) * (runs - 1), sd * (2 / runs) ** 0.5
    if design.margin is None:
        limit, shift = t.isf(ALPHA / 2, df), effect / error
        return float(nct.sf(limit, df, shift) + nct.cdf(-limit, df, shift))
    limit = t.isf(ALPHA, df)
    above = float(nct.sf(limit, df, (design.margin + effect) / error))
    if design.claim is Claim.NON_INFERIORITY:
        return above
    return max(0.0, above + float(nct.sf(limit, df, (design.margin - effect) / error)) - 1)


def _is_true(design: Design, effect: float) -> bool:
    if design.margin is None:
        return effect != 0
    return effect > -design.margin and (design.claim is Claim.NON_INFERIORITY or effect < design.margin)


def _shown(design: Design, effect: float, errors: _Errors) -> float:
    """Average over the observed standard errors the chance that the test shows its claim."""
    import numpy as np
    from scipy.special import ndtr

    if design.margin is None:
        chance = ndtr((effect - errors.reach) / errors.true) + ndtr((-effect - errors.reach) / errors.true)
    else:
        above = ndtr((effect + design.margin - errors.reach) / errors.true)
        chance = above
        if design.claim is Claim.EQUIVALENCE:
            too_high = ndtr((effect - design.margin + errors.reach) / errors.true)
            chance = np.maximum(0.0, above - too_high)
    return float((chance * errors.weights).sum())


def _errors(design: Design, sd: float, runs: int, treatments: int) -> _Errors:
    import numpy as np

    true = sd * float(np.sqrt(2 / runs))
    if design.is_dunnett(treatments):
        sizes = (runs,) * (treatments + 1)
        spread, weights = spread_nodes(dunnett_df(design, sizes))
        return _Errors(true, dunnett_limit(design, sizes) * true * spread, weights)
    tail = (ALPHA / 2 if design.claim is Claim.SUPERIORITY else ALPHA) / treatments
    return _paired(true, runs, tail) if design.blocked else _separate(true, runs, tail)


def _paired(true: float, runs: int, tail: float) -> _Errors:
    """Return the errors of the paired t over blocks. What blocks share is not assumed: the spread is as without
    them.
    """
    from scipy.special import stdtrit

    spread, weights = spread_nodes(float(runs - 1))
    return _Errors(true, float(stdtrit(runs - 1, 1 - tail)) * true * spread, weights)


def _separate(true: float, runs: int, tail: float) -> _Errors:
    """Welch's t: the two arms' spreads vary apart, and with them the degrees of freedom."""
    import numpy as np
    from scipy.special import stdtrit

    spread, weights = spread_nodes(float(runs - 1))
    a, b = np.meshgrid(spread**2, spread**2)
    df = (runs - 1) * (a + b) ** 2 / (a**2 + b**2)
    return _Errors(true, stdtrit(df, 1 - tail) * true * np.sqrt((a + b) / 2), np.outer(weights, weights))


def _least(shown: Callable[[float], float], most: float) -> float:
    """Return the smallest value that is shown with 80 % power, by bisection; `most` where even that is not."""
    low, high = 0.0, most
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if shown(middle) >= POWER else (middle, high)
    return high
