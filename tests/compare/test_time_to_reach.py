"""When a run reached a value: two validations in a row, and what is said of those that never did."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rlx.compare import ComparedRun, compare
from rlx.compare.speed import Reached, median_step, reached
from rlx.evidence import Evidence
from tests.compare.builders import RunBuilder


def compared(series: Mapping[int, float]) -> ComparedRun:
    run = RunBuilder(series=series).judged()
    return compare([run], []).control.runs[0]


def step_of(series: Mapping[int, float], value: float = 0.5) -> int | None:
    return reached(compared(series), Evidence(), value).step


@pytest.mark.parametrize(
    ("series", "step"),
    [
        ({0: 0.1, 10: 0.5, 20: 0.6, 30: 0.7}, 10),
        ({0: 0.1, 10: 0.9, 20: 0.4, 30: 0.6, 40: 0.5}, 30),
        ({0: 0.1, 10: 0.2, 20: 0.9}, None),
        ({0: 0.6, 10: 0.6}, 0),
        ({10: 0.9}, None),
        ({0: 0.1, 10: 0.9, 20: 0.4, 30: 0.9, 40: 0.4}, None),
    ],
)
def test_two_in_a_row_count(series: Mapping[int, float], step: int | None) -> None:
    assert step_of(series) == step


def test_a_run_that_never_got_there_says_how_far_it_was_looked_at() -> None:
    found = reached(compared({0: 0.1, 10: 0.2}), Evidence(), 0.5)
    assert (found.step, found.last, found.seconds) == (None, 10, None)


def test_the_time_is_that_of_all_steps_up_to_it_or_none() -> None:
    run = compared({0: 0.1, 2: 0.6, 4: 0.6})
    steps = {step: {"timing_s/step": 10.0 * step} for step in (1, 2, 3, 4)}
    assert reached(run, Evidence(metrics=steps), 0.5).seconds == 30.0
    del steps[1]
    assert reached(run, Evidence(metrics=steps), 0.5).seconds is None


def at(step: int | None, last: int = 100) -> Reached:
    return Reached("run", step, last, None)


@pytest.mark.parametrize(
    ("found", "median"),
    [
        ([at(10), at(30), at(20)], 20),
        ([at(10), at(None), at(20)], 20),
        ([at(10), at(20), at(40), at(None)], 30),
        ([at(10), at(None)], None),
        ([at(None), at(None)], None),
        ([at(10), at(30), at(None, last=20)], None),
    ],
)
def test_the_median_counts_those_that_never_got_there_as_later(found: list[Reached], median: float | None) -> None:
    assert median_step(found) == median
