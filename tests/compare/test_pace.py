from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import stdtrit

from rlx.cli.text.pace_text import pace_rows
from rlx.compare import Comparison, compare
from rlx.compare.pace import Pace, pace
from rlx.compare.speed import speed_change
from rlx.evidence import Evidence
from tests.compare.builders import METRIC, RunBuilder

Steps = Mapping[int, Mapping[str, float]]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ({}, Pace()),
        ({0: {METRIC: 0.1}}, Pace()),
        ({1: {"timing_s/step": 2.0}, 2: {"timing_s/step": 4.0}}, Pace(3.0, None, 6.0)),
        ({1: {"timing_s/step": 2.0}, 3: {"timing_s/step": 4.0}}, Pace(3.0, None, None)),
        (
            {1: {"perf/time_per_step": 2.0, "perf/total_num_tokens": 100.0, "perf/throughput": 25.0}},
            Pace(2.0, 50.0, 2.0),
        ),
        ({1: {"perf/throughput": 25.0}}, Pace(None, 50.0, None)),
        ({1: {"timing/all": 120.5, "e2e_tps": 180.0}}, Pace(120.5, 180.0, 120.5)),
        ({1: {"timing_s/step": math.nan}, 2: {"timing_s/step": 0.0}, 3: {"timing_s/step": -1.0}}, Pace()),
    ],
)
def test_pace(steps: Steps, expected: Pace) -> None:
    assert pace(Evidence(metrics=steps), devices=2) == expected


@settings(deadline=None)
@given(st.dictionaries(st.integers(0, 50), st.floats(min_value=1e-3, max_value=1e6), min_size=1))
def test_one_slow_step_does_not_set_the_pace(seconds: dict[int, float]) -> None:
    found = pace(Evidence(metrics={step: {"timing_s/step": value} for step, value in seconds.items()}), devices=1)
    assert found.seconds_per_step is not None
    assert min(seconds.values()) <= found.seconds_per_step <= max(seconds.values())


def arms_with(speeds: Mapping[str, Sequence[float]]) -> Comparison:
    """Arms of one run a value, each of two steps that take so many seconds."""
    arms = []
    for arm, runs in speeds.items():
        metrics = [{step: {METRIC: 0.5, "timing_s/step": value} for step in (1, 2)} for value in runs]
        arms.append([RunBuilder(arm=arm, seed=seed, metrics=each).judged() for seed, each in enumerate(metrics)])
    return compare(arms[0], arms[1:])


def test_times_of_fewer_than_three_runs_stand_alone() -> None:
    one = arms_with({"baseline": [3.0], "aqn": [4.0], "fast": [0.0]})
    assert list(pace_rows(one.arms)) == [
        ("s/step", ["3", "4", ""], ["", ""]),
        ("all steps", ["6 s", "8 s", ""], ["", ""]),
    ]
    two = arms_with({"baseline": [3.0, 3.1, 3.2], "aqn": [4.0, 4.1]})
    assert [changes for _, _, changes in pace_rows(two.arms)] == [[""], [""]]


def test_a_change_is_stated_with_its_interval() -> None:
    """Against a Welch interval of the logarithms, computed by hand for these values."""
    (row, _) = pace_rows(arms_with({"baseline": [2.0, 2.0, 2.2], "aqn": [4.0, 4.4, 4.0]}).arms)
    found = speed_change([2.0, 2.0, 2.2], [4.0, 4.4, 4.0])
    assert found is not None and found.change == pytest.approx(1.0)
    spread, df = math.log(1.1) ** 2 / 3, 4
    half = stdtrit(df, 0.975) * math.sqrt(2 * spread / 3)
    assert (found.low, found.high) == (pytest.approx(2 * math.exp(-half) - 1), pytest.approx(2 * math.exp(half) - 1))
    assert row == ("s/step", ["2.07", "4.13"], [f"+100 % ({100 * found.low:+.0f} to {100 * found.high:+.0f})"])


def test_another_load_between_the_arms_leaves_nothing_to_state() -> None:
    found = speed_change([3.6, 2.9, 4.5], [9.0, 4.7, 4.2])
    assert found is not None and found.low < 0 < found.change < found.high


def test_equal_times_have_no_interval() -> None:
    assert speed_change([2.0] * 3, [3.0] * 3) is None
