"""What an experiment registered as secondary: taken as the primary value is, of the runs that count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlx.compare.registered_answer import RegisteredResult, RegisteredRun
from rlx.compare.registered_question import secondary_values
from rlx.evidence import JudgedRun
from rlx.model import Registration
from tests.compare.builders import METRIC, RunBuilder
from tests.registrations import ASKED

LENGTH, ENTROPY = "response_length/mean", "actor/entropy"


def asked(*secondary: str) -> Registration:
    return replace(ASKED, metric=METRIC, secondary=secondary)


def run(arm: str, seed: int, final: float, **more: float) -> JudgedRun:
    log = {0: {METRIC: 0.0}, 10: {METRIC: final, LENGTH: 100.0 * seed, ENTROPY: 0.5, **more}}
    return RunBuilder(arm, {0: 0.0, 10: final}, seed=seed, metrics=log).judged()


RUNS = [run("slow", 1, 0.4), run("slow", 2, 0.6), run("fast", 1, 0.8), run("fast", 2, 0.8)]


def found(registration: Registration, lacking: int = 0) -> RegisteredResult:
    runs = [RegisteredRun(each.arm, each.seed, each.run_id, {METRIC: 0.5}) for each in RUNS]
    struck = [replace(each, values={}, lacks="is invalid") for each in runs[:lacking]]
    return RegisteredResult(registration, (*struck, *runs[lacking:]))


def test_the_area_under_the_primary_curve() -> None:
    (area,) = secondary_values(found(asked("auc")), RUNS)
    assert area.name == f"area under {METRIC}"
    assert area.arms == (pytest.approx((0.2, 0.3)), pytest.approx((0.4, 0.4)))


def test_names_and_patterns_are_taken_as_the_primary_value_is() -> None:
    length, entropy = secondary_values(found(asked(LENGTH, "*entropy")), RUNS)
    assert (length.name, length.arms, length.runs) == (LENGTH, ((100.0, 200.0), (100.0, 200.0)), (2, 2))
    assert (entropy.name, entropy.arms[0]) == (ENTROPY, (0.5, 0.5))


def test_a_run_that_is_no_result_has_no_value_and_is_counted() -> None:
    (length,) = secondary_values(found(asked(LENGTH), lacking=1), RUNS)
    assert (length.arms, length.runs) == (((200.0,), (100.0, 200.0)), (2, 2))


def test_runs_that_stand_for_no_registered_one_are_left_out() -> None:
    (length,) = secondary_values(found(asked(LENGTH)), [*RUNS, run("slow", 9, 0.9)])
    assert length.arms[0] == (100.0, 200.0)


def test_a_name_that_no_log_has_gives_nothing() -> None:
    assert secondary_values(found(asked("nothing/like/it")), RUNS) == []
    assert secondary_values(found(asked()), RUNS) == []
