from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.cli.text.pace_text import pace_rows
from rlx.compare import compare
from rlx.compare.pace import Pace, pace
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


def test_rows_hold_the_arms_against_each_other() -> None:
    speeds = {"baseline": (2.0, 4.0), "aqn": (3.0, 5.0), "fast": (0.0, 0.0)}
    arms = []
    for arm, values in speeds.items():
        metrics = {step: {METRIC: 0.5, "timing_s/step": value} for step, value in enumerate(values, start=1)}
        arms.append([RunBuilder(arm=arm, metrics=metrics).judged()])
    comparison = compare(arms[0], arms[1:])
    assert list(pace_rows(comparison.arms)) == [
        ("s/step", ["3", "4", ""], ["+33 %", ""]),
        ("all steps", ["6 s", "8 s", ""], ["+33 %", ""]),
    ]
