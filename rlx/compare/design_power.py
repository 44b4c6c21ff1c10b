"""The power of a registered design before its runs: what so many seeds of such a spread would show.

Effects, margins and standard deviations are in points (any unit will do, if it is one). The spread is that between
seeds of one arm, alike in all arms; runs are per arm; values are normal. The power is that of the test itself, by
integrating over the spreads that the runs may happen to show: a noncentral t with 2n - 2 degrees of freedom, as
textbooks have it, promises 80 % where Welch's test with three seeds an arm reaches 70 %.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rlx.compare.error_rates import ALPHA, POWER
from rlx.compare.quadrature import spread_nodes
from rlx.compare.registered_design import Claim, Design
from rlx.compare.registered_tests import dunnett_df, dunnett_limit

MOST_RUNS = 1000
_BISECTIONS = 50
_WIDEST = 1e3
"""In standard deviations: no effect is looked for beyond it."""


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
    """The chance that the test shows its claim of one treatment whose true difference is `effect`.

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
    """The true difference that superiority shows with 80 % power, in points. The margin has no say."""
    errors = _errors(Design(several=design.several, blocked=design.blocked), sd, runs, treatments)
    return _least(lambda effect: _shown(Design(), effect, errors), _WIDEST * sd)


def smallest_margin(design: Design, sd: float, runs: int, treatments: int = 1, effect: float = 0.0) -> float:
    """The margin that non-inferiority or equivalence shows with 80 % power where the truth is `effect`, in points."""
    errors = _errors(design, sd, runs, treatments)

    def with_margin(margin: float) -> float:
        return _shown(Design(design.claim, margin), effect, errors)

    return _least(with_margin, _WIDEST * sd + abs(effect))


def runs_for(design: Design, effect: float, sd: float, treatments: int = 1) -> int | None:
    """The runs an arm with which the test shows its claim with 80 % power; None for more than 1000."""
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
    """The power of Student's test with 2n - 2 degrees of freedom, for one treatment: noncentral t.

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
    """Average over the observed standard errors the chance that the difference lies where the test shows its claim."""
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
    """The paired t over blocks. Nothing is taken for granted of what blocks share: the spread is as without them."""
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
    """The smallest value that is shown with 80 % power, by bisection; `most` where even that is not."""
    low, high = 0.0, most
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if shown(middle) >= POWER else (middle, high)
    return high
