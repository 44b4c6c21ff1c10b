from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.cli.text.compare_text import pace_rows
from rlx.compare import Comparison, compare
from rlx.compare.pace import Pace, host_load, pace
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


def arms_with(speeds: Mapping[str, Sequence[float]], *, by_arm: bool = False, **provenance: object) -> Comparison:
    """Arms of one run a value, each of two steps that take so many seconds; started seed by seed, else arm by arm."""
    arms = []
    for place, (arm, runs) in enumerate(speeds.items()):
        arms.append(
            [
                RunBuilder(
                    arm=arm,
                    seed=seed,
                    metrics={step: {METRIC: 0.5, "timing_s/step": value} for step in (1, 2)},
                    provenance={"time": 1.0 + (100 * place + seed if by_arm else 100 * seed + place), **provenance},
                ).judged()
                for seed, value in enumerate(runs)
            ]
        )
    return compare(arms[0], arms[1:])


def test_times_of_fewer_than_three_blocks_stand_alone() -> None:
    one = arms_with({"baseline": [3.0], "aqn": [4.0], "fast": [0.0]})
    assert list(pace_rows(one.arms)) == [
        ("s/step", ["3", "4", ""], ["", ""]),
        ("all steps", ["6 s", "8 s", ""], ["", ""]),
    ]
    two = arms_with({"baseline": [3.0, 3.1, 3.2], "aqn": [4.0, 4.1]})
    assert [changes for _, _, changes in pace_rows(two.arms)] == [[""], [""]]


def changes(control: Sequence[float], treatment: Sequence[float], *, by_arm: bool = False) -> str:
    """What the row of a step's time says of the treatment."""
    (row, _) = pace_rows(arms_with({"baseline": control, "aqn": treatment}, by_arm=by_arm).arms)
    return row[2][0]


def test_a_change_is_stated_with_its_interval_over_blocks() -> None:
    """Against a paired interval of the logarithms by scipy."""
    control, treatment = [2.0, 2.0, 2.2], [4.0, 4.4, 4.0]
    found = speed_change([*zip(control, treatment, strict=True)])
    by_hand = scipy.stats.ttest_rel([math.log(each) for each in treatment], [math.log(each) for each in control])
    low, high = by_hand.confidence_interval()
    assert found is not None and found.change == pytest.approx(1.0)
    assert (found.low, found.high) == (pytest.approx(math.expm1(low)), pytest.approx(math.expm1(high)))
    assert changes(control, treatment) == f"+100 % ({100 * found.low:+.0f} to {100 * found.high:+.0f})"


def test_what_a_host_did_beside_falls_on_both_runs_of_a_block() -> None:
    assert changes([2.0, 4.0, 8.0], [2.2, 4.5, 8.7]) == "+10 % (+6 to +15)"


def test_runs_that_were_started_arm_by_arm_are_no_blocks() -> None:
    assert changes([2.0, 4.0, 8.0], [2.2, 4.5, 8.7], by_arm=True) == ""


def test_another_load_within_the_blocks_leaves_nothing_to_state() -> None:
    found = speed_change([(3.6, 9.0), (2.9, 4.7), (4.5, 4.2)])
    assert found is not None and found.low < 0 < found.change < found.high


def test_equal_ratios_have_no_interval() -> None:
    assert speed_change([(2.0, 3.0)] * 3) is None


def test_the_load_of_the_hosts_stands_beside_the_times() -> None:
    arms = arms_with({"baseline": [3.0], "aqn": [4.0]}, load={"minute": 2.14, "processors": 16}).arms
    assert [*pace_rows(arms)][-1] == ("load before", ["2.1 of 16", "2.1 of 16"], [""])


@pytest.mark.parametrize(
    "load",
    [
        None,
        "high",
        {},
        {"minute": "1", "processors": 2},
        {"minute": -1, "processors": 2},
        {"minute": 1e300, "processors": 2},
    ],
)
def test_a_load_that_is_none_is_not_shown(load: object) -> None:
    assert host_load({"load": load}) is None
