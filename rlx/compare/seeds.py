"""Two arms of several seeds: the test of the treatment, on one value a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WelchSeeds:
    """Treatment minus control at one step, on the values of the runs, in the unit of the metric.

    `control_sd` and `treatment_sd` are standard deviations over the runs (n - 1). `low` and `high` bound the 95 %
    interval; `df` are the degrees of freedom of `t`. `detectable` is the difference that this many runs show with 80 %
    power at this spread, `runs_needed` how many runs an arm would show the observed difference so (None where there
    is no difference).
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
