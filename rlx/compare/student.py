"""Student's t for a difference with a known number of degrees of freedom, and what it can find. Arrays work, too."""

from __future__ import annotations

from typing import Any, NamedTuple

from rlx.compare.error_rates import ALPHA, POWER


class TTest(NamedTuple):
    """A difference, its standard error and degrees of freedom; half the 95 % interval and the two-sided p-value.

    Numbers or arrays of one shape; nan where the standard error is 0.
    """

    difference: Any
    error: Any
    df: Any
    half: Any
    p_value: Any


def t_test(difference: Any, error: Any, df: Any) -> TTest:
    import numpy as np
    from scipy.special import stdtr, stdtrit

    with np.errstate(invalid="ignore", divide="ignore"):
        p_value = 2 * stdtr(df, -abs(np.divide(difference, error)))
    return TTest(difference, error, df, stdtrit(df, 1 - ALPHA / 2) * error, p_value)


def detectable_difference(error: float, df: float) -> float:
    """The true difference that a t test with this standard error finds with 80 % power (noncentral t)."""
    from scipy.special import nctdtrinc, stdtrit

    return float(nctdtrinc(df, 1 - POWER, stdtrit(df, 1 - ALPHA / 2)) * error)
