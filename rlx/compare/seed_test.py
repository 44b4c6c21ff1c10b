"""Test the treatment on arms of several seeds, with one value per run.

The run is the unit: its seed moves more than its items do. Seeds are not paired, though both arms may have the same
numbers: a seed shares the order of the data at most, and pairing would halve the degrees of freedom for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from rlx.compare.metric import ItemCount
from rlx.compare.statistic import TTest, detectable_difference, t_test

_MOST_RUNS = 2**20


@dataclass(frozen=True, slots=True)
class WelchSeeds:
    """Treatment minus control at one step, on the values of the runs, in the unit of the metric.

    `control_sd` and `treatment_sd` are standard deviations over the runs (n - 1). `low` and `high` bound the 95 %
    interval; `df` are the degrees of freedom of `t`. `detectable` is the difference that this many runs show with 80 %
    power at this spread, `runs_needed` how many runs an arm would show the observed difference so (None where there
    is no difference, or no number that anybody would run).
    """

    control_runs: int
    treatment_runs: int
    control: float
    treatment: float
    control_sd: float
    treatment_sd: float
    difference: float
    low: float
    high: float
    t: float
    df: float
    p_value: float
    detectable: float
    runs_needed: int | None
    method: str

    @property
    def is_of_arms(self) -> bool:
        return True

    @property
    def is_by_item(self) -> bool:
        return False

    @property
    def unit_of_sample(self) -> str:
        return "runs"

    def sample_words(self, seeds: str) -> str:
        return seeds

    def counted_words(self, items: ItemCount) -> str:
        return f" ({self.method})" + (f"; n = {items.n} items from {items.source}" if items.n else "")

    def needed_words(self) -> str:
        return f"{self.runs_needed} seeds per arm" if self.runs_needed else ""


def welch_seeds(control: Sequence[float], treatment: Sequence[float]) -> WelchSeeds | str:
    """Return the test of two arms on the values of their runs, two or more each, or why there is none."""
    import numpy as np

    if len(set(control)) == len(set(treatment)) == 1:
        return "the runs of each arm have equal values: they show no spread to judge by"
    arms = np.array(control), np.array(treatment)
    test = TTest(*map(float, mean_test(*arms)))
    spreads = stdev(control), stdev(treatment)
    return WelchSeeds(
        control_runs=len(control),
        treatment_runs=len(treatment),
        control=fmean(control),
        treatment=fmean(treatment),
        control_sd=spreads[0],
        treatment_sd=spreads[1],
        difference=test.difference,
        low=test.difference - test.half,
        high=test.difference + test.half,
        t=test.difference / test.error,
        df=test.df,
        p_value=test.p_value,
        detectable=detectable_difference(test.error, test.df),
        runs_needed=runs_needed(test.difference, math.hypot(*spreads) / math.sqrt(2)),
        method=f"{_name(test, *arms)} t test, {test.df:.1f} degrees of freedom",
    )


def mean_test(control: Any, treatment: Any) -> TTest:
    """Test treatment minus control, the means over the last axis of two arrays.

    Welch's t with the degrees of freedom of Welch and Satterthwaite (Satterthwaite 1946, An approximate distribution of
    estimates of variance components, Biometrics Bulletin 2:110-114), as `scipy.stats.ttest_ind(equal_var=False)` has
    it. Arms of unequal size get Student's t where its interval is the wider: with two runs against ten, Welch's covers
    90 %. All numbers are those of the one test.
    """
    welch = _welch(control, treatment)
    if control.shape[-1] == treatment.shape[-1]:
        return welch
    return _wider(welch, _student(control, treatment))


def runs_needed(difference: float, spread: float) -> int | None:
    """Return the runs an arm that show this difference with 80 % power, where `spread` is their standard deviation."""
    few, many = 1, 2
    while not _shows(many, difference, spread):
        few, many = many, 2 * many
        if many > _MOST_RUNS:
            return None
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if _shows(middle, difference, spread) else (middle, many)
    return many


def _name(test: TTest, control: Any, treatment: Any) -> str:
    unequal = len(control) != len(treatment)
    return "Student's" if unequal and test == _student(control, treatment) else "Welch's"


def _shows(runs: int, difference: float, spread: float) -> bool:
    return detectable_difference(spread * math.sqrt(2 / runs), 2 * runs - 2) <= abs(difference)


def _welch(control: Any, treatment: Any) -> TTest:
    import numpy as np

    left, right = control.shape[-1], treatment.shape[-1]
    a, b = control.var(axis=-1, ddof=1) / left, treatment.var(axis=-1, ddof=1) / right
    with np.errstate(invalid="ignore"):
        # By shares: the squares of small variances are 0.
        share = a / (a + b)
    df = 1 / (share**2 / (left - 1) + (1 - share) ** 2 / (right - 1))
    return t_test(treatment.mean(axis=-1) - control.mean(axis=-1), np.sqrt(a + b), df)


def _student(control: Any, treatment: Any) -> TTest:
    import numpy as np

    left, right = control.shape[-1], treatment.shape[-1]
    squares = control.var(axis=-1) * left + treatment.var(axis=-1) * right
    df = left + right - 2
    error = np.sqrt(squares / df * (1 / left + 1 / right))
    return t_test(treatment.mean(axis=-1) - control.mean(axis=-1), error, np.full_like(error, df))


def _wider(one: TTest, other: TTest) -> TTest:
    """Take of two tests of the same values, element by element, the one with the wider interval."""
    import numpy as np

    wider = other.half > one.half
    return TTest(*(np.where(wider, theirs, ours) for ours, theirs in zip(one, other, strict=True)))


def separate(control: Any, treatments: Sequence[Any]) -> list[TTest]:
    """Test each treatment against the control by its own spread: Welch's t as in `mean_test`.

    Values are arrays whose last axis is the runs of an arm; leading axes, such as replications of a simulation, are
    kept. The runs of a blocked design are in the order of their blocks in every arm.
    """
    return [mean_test(control, arm) for arm in treatments]


def separate_in_blocks(control: Any, treatments: Sequence[Any]) -> list[TTest]:
    """Test each treatment against the control by the differences within blocks: paired t, blocks - 1 degrees of
    freedom. Raises ValueError where an arm has another number of runs."""
    import numpy as np

    blocks = _blocks(control, treatments)
    differences = [arm - control for arm in treatments]
    errors = [each.std(axis=-1, ddof=1) / np.sqrt(blocks) for each in differences]
    return [
        t_test(each.mean(axis=-1), error, np.full_like(error, blocks - 1.0))
        for each, error in zip(differences, errors, strict=True)
    ]


def pooled(control: Any, treatments: Sequence[Any]) -> list[TTest]:
    """Test each treatment against the control with one variance of all arms, as in Dunnett's test.

    Source: Dunnett (1955), A multiple comparison procedure for comparing several treatments with a control, Journal of
    the American Statistical Association 50:1096-1121.
    """
    import numpy as np

    arms = [control, *treatments]
    df = sum(arm.shape[-1] - 1 for arm in arms)
    squares = sum(arm.var(axis=-1) * arm.shape[-1] for arm in arms)
    factors = [np.sqrt(1 / control.shape[-1] + 1 / arm.shape[-1]) for arm in treatments]
    return _of_one_variance(control, treatments, squares / df, df, factors)


def pooled_in_blocks(control: Any, treatments: Sequence[Any]) -> list[TTest]:
    """Test like `pooled`, without what the blocks share: the residual of arms and blocks, (blocks - 1) (arms - 1)
    degrees of freedom. With one treatment it is the paired t. Raises ValueError where an arm has another number of
    runs."""
    import numpy as np

    blocks = _blocks(control, treatments)
    values = np.stack([control, *treatments], axis=-2)
    rest = values - values.mean(axis=-1, keepdims=True) - values.mean(axis=-2, keepdims=True)
    rest = rest + values.mean(axis=(-1, -2), keepdims=True)
    df = (blocks - 1) * len(treatments)
    factors = [np.sqrt(2 / blocks)] * len(treatments)
    return _of_one_variance(control, treatments, (rest**2).sum(axis=(-1, -2)) / df, df, factors)


def _of_one_variance(
    control: Any, treatments: Sequence[Any], variance: Any, df: int, factors: Sequence[float]
) -> list[TTest]:
    import numpy as np

    errors = [np.sqrt(variance) * factor for factor in factors]
    return [
        t_test(arm.mean(axis=-1) - control.mean(axis=-1), error, np.full_like(error, df))
        for arm, error in zip(treatments, errors, strict=True)
    ]


def _blocks(control: Any, treatments: Sequence[Any]) -> int:
    """Return the number of blocks, which every arm has a run of."""
    sizes = {arm.shape[-1] for arm in (control, *treatments)}
    if len(sizes) > 1:
        raise ValueError(f"blocks have each arm once, and the arms have {sorted(sizes)} runs")
    return int(control.shape[-1])
