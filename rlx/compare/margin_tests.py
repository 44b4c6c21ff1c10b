"""Non-inferiority and equivalence: one-sided t tests of a difference against a margin. Arrays work, too.

Source: Schuirmann (1987), A comparison of the two one-sided tests procedure and the power approach for assessing the
equivalence of average bioavailability, Journal of Pharmacokinetics and Biopharmaceutics 15:657-680. Differences,
margins and standard errors are in one unit, whichever it is; margins are positive.
"""

from __future__ import annotations

from typing import Any

from rlx.compare.student import TTest


def p_above(test: TTest, limit: float) -> Any:
    """The one-sided p-value against "the difference is `limit` or less", in the shape of the test; nan without spread.

    With the negative margin as `limit` it is the p-value of non-inferiority.
    """
    return _upper_tail(test.difference - limit, test)


def p_below(test: TTest, limit: float) -> Any:
    """The one-sided p-value against "the difference is `limit` or more"."""
    return _upper_tail(limit - test.difference, test)


def p_within(test: TTest, margin: float) -> Any:
    """The p-value of equivalence (TOST): the larger of those against either end of the margin.

    It is below 5 % exactly where the 90 % interval lies within the margin.
    """
    import numpy as np

    return np.maximum(p_above(test, -margin), p_below(test, margin))


def p_beyond(test: TTest, margin: float) -> Any:
    """The p-value of "the difference is larger than the margin, on either side": the smaller one-sided one.

    Not doubled: at a true difference of one end of the margin, only the tail of that end can reject.
    """
    import numpy as np

    return np.minimum(p_above(test, margin), p_below(test, -margin))


def _upper_tail(distance: Any, test: TTest) -> Any:
    import numpy as np
    from scipy.special import stdtr

    with np.errstate(invalid="ignore", divide="ignore"):
        return stdtr(test.df, -np.divide(distance, test.error))
