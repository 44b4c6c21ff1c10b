from __future__ import annotations

import math

from rlx.compare.alignment import StepRow, StepValue, align, final, finite, last_common_step, peak


def test_values_meet_by_step_not_by_row() -> None:
    rows = align([{0: 0.1, 20: 0.6, 40: 0.7}, {20: 0.5, 30: 0.6}])
    assert rows == (
        StepRow(0, (0.1, None)),
        StepRow(20, (0.6, 0.5)),
        StepRow(30, (None, 0.6)),
        StepRow(40, (0.7, None)),
    )


def test_last_common_step_is_where_both_were_validated() -> None:
    assert last_common_step({0: 0.1, 20: 0.6, 116: 0.7}, {0: 0.1, 20: 0.5, 107: 0.6}) == 20
    assert last_common_step({10: 0.1}, {20: 0.1}) is None


def test_peak_is_the_first_best_and_final_the_last() -> None:
    series = {0: 0.1, 40: 0.9, 20: 0.9, 60: 0.4}
    assert peak(series) == StepValue(20, 0.9)
    assert final(series) == StepValue(60, 0.4)
    assert peak({}) is None
    assert final({}) is None


def test_nan_validates_nothing() -> None:
    assert finite({20: math.nan, 10: 0.5, 30: math.inf}) == {10: 0.5}


def test_a_value_beyond_every_scale_validates_nothing() -> None:
    assert finite({0: 0.5, 1: 1e308, 2: -1e308}) == {0: 0.5}
