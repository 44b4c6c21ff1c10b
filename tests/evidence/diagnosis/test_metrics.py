"""Stalls and collapses from metrics; that no healthy log alarms is checked with all logs (test_signatures)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from statistics import median

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlx.evidence import Evidence, RunTotals
from rlx.evidence.checks import training_signal
from rlx.evidence.checks.check_input import CheckInput
from rlx.evidence.diagnosis import Quiet, is_stalled, stalls
from rlx.model import Expectations, Finding, RunState

PLAN = Expectations(29, (20,), False, 1319, 1, "auto", None, False)


def training(steps: int = 60, **changed: Callable[[int], float]) -> Evidence:
    """A run that learns, with noise; `changed` replaces metrics, with two underscores for a slash."""
    dice = random.Random(7)
    usual: dict[str, Callable[[int], float]] = {
        "critic/score/mean": lambda step: 0.3 + 0.4 * step / steps + dice.gauss(0, 0.08),
        "actor/entropy": lambda step: 0.5 - 0.2 * step / steps + dice.gauss(0, 0.05),
        "actor/grad_norm": lambda step: 2.0 * math.exp(dice.gauss(0, 0.5)),
        "actor/kl_loss": lambda step: 0.001 * step + abs(dice.gauss(0, 0.01)),
        "response_length/mean": lambda step: 200 + dice.gauss(0, 40),
        "response_length/clip_ratio": lambda step: abs(dice.gauss(0, 0.1)),
        "timing_s/step": lambda step: 100.0,
    }
    usual |= {key.replace("__", "/"): value for key, value in changed.items()}
    return Evidence({step: {key: value(step) for key, value in usual.items()} for step in range(1, steps + 1)})


def found(evidence: Evidence) -> list[tuple[str, int | None]]:
    charges = training_signal.check(CheckInput(evidence, PLAN, RunState.FINISHED))
    return [(charge.finding.id, charge.finding.step) for charge in charges]


def test_a_run_that_learns_raises_no_alarm() -> None:
    assert found(training()) == []


@settings(deadline=None)
@given(st.integers(1, 60), st.sampled_from(["critic/score/mean", "actor/entropy", "actor/grad_norm"]), st.floats(0, 50))
def test_one_wild_step_raises_none(step: int, key: str, value: float) -> None:
    evidence = training()
    assert found(replace(evidence, metrics={**evidence.metrics, step: {**evidence.metrics[step], key: value}})) == []


def test_the_collapse_of_the_30b_arm_is_seen() -> None:
    """Qwen3-30B with 5 % noise: 79.08 % at step 30, 33.59 % and a KL of 88.73 at step 58."""
    key = "val-core/openai/gsm8k/acc/mean@1"
    metrics = {30: {key: 0.7908}, 58: {key: 0.3359, "actor/kl_loss": 88.73}}
    assert found(Evidence(metrics, totals=RunTotals(58, 7473, 1319))) == [("RLX894", 58), ("RLX895", 58)]


@settings(deadline=None)
@given(st.lists(st.floats(-200, 200), min_size=2, max_size=9))
@example([0.125, 0.125, 10.0])
@example([1.0, 1.0, -20.0])
def test_a_kl_is_held_against_the_median_of_the_other_steps(values: list[float]) -> None:
    others = [[abs(other) for at, other in enumerate(values) if at != step] for step in range(len(values))]
    beyond = [step for step, value in enumerate(values) if abs(value) >= max(10, 20 * median(others[step]))]
    metrics = {step: {"actor/kl_loss": value} for step, value in enumerate(values)}
    assert found(Evidence(metrics)) == [("RLX894", step) for step in beyond[:1]]


@pytest.mark.parametrize(
    ("id", "key", "value", "first"),
    [
        ("RLX654", "actor__pg_loss", lambda step: math.nan if step >= 40 else 0.1, 40),
        ("RLX654", "actor__grad_norm", lambda step: math.inf if step == 40 else 2.0, 40),
        ("RLX893", "critic__vf_loss", lambda step: math.nan if step >= 40 else 0.1, 40),
        ("RLX893", "actor__entropy", lambda step: math.inf if step == 40 else 0.5, 40),
        ("RLX894", "actor__kl_loss", lambda step: 0.01 if step < 40 else 12.0, 40),
        ("RLX895", "critic__score__mean", lambda step: 0.6 if step < 40 else 0.05, 40),
        ("RLX896", "actor__entropy", lambda step: 0.5 if step < 40 else 0.001, 40),
        ("RLX896", "actor__entropy", lambda step: 0.5 if step < 40 else 6.0, 40),
        ("RLX897", "response_length__mean", lambda step: 300.0 if step < 40 else 3.0, 40),
        ("RLX897", "response_length__clip_ratio", lambda step: 0.05 if step < 40 else 1.0, 40),
        ("RLX898", "actor__grad_norm", lambda step: 2.0 if step < 40 else 900.0, 40),
    ],
)
def test_a_collapse_is_named_with_its_step(id: str, key: str, value: Callable[[int], float], first: int) -> None:
    ((seen, step),) = found(training(**{key: value}))
    assert seen == id and step is not None and first <= step <= first + 3


def test_a_run_that_recovers_raises_no_alarm() -> None:
    assert found(training(critic__score__mean=lambda step: 0.05 if 30 < step < 45 else 0.6)) == []


def test_few_rows_explain_a_fall() -> None:
    """12 of 32 after 24 of 32: four standard errors are more than that."""
    evidence = Evidence(
        {2: {"val-core/a/acc/mean@1": 0.75}, 4: {"val-core/a/acc/mean@1": 0.375}}, totals=RunTotals(4, 9, 32)
    )
    assert found(evidence) == []
    assert found(replace(evidence, totals=RunTotals(4, 9, 1319))) == [("RLX895", 4)]


def stalled(evidence: Evidence, seconds: float, plan: Expectations = PLAN) -> list[Finding]:
    quiet = Quiet(seconds, seconds, seconds)
    findings = list(stalls(evidence, plan, quiet))
    assert bool(findings) == is_stalled(evidence, plan, quiet) or not evidence.metrics
    return findings


def test_a_step_that_takes_ten_times_as_long_is_a_stall() -> None:
    evidence = training(15)
    assert stalled(evidence, 900) == []
    (finding,) = stalled(evidence, 1100)
    assert finding.id == "RLX890" and finding.step == 15 and "18 min" in finding.message


def test_quick_steps_get_ten_minutes() -> None:
    evidence = training(15, timing_s__step=lambda step: 0.5)
    assert stalled(evidence, 500) == [] and stalled(evidence, 700) != []


def test_the_start_is_exempt() -> None:
    assert stalled(training(2), 10_000) == []


def test_a_validation_of_unknown_length_is_exempt() -> None:
    """After step 19 step 20 is due, and it is the first with a validation."""
    assert stalled(training(19), 3600) == []
    timed = training(19, timing_s__testing=lambda step: 60.0)
    assert stalled(timed, 1100) == [] and stalled(timed, 1200) != []


def test_long_validations_are_waited_for() -> None:
    assert stalled(training(15, timing_s__testing=lambda step: 900.0), 3000) == []


@pytest.mark.parametrize(("steps", "id", "word"), [(27, "RLX890", "before the end"), (29, "RLX892", "does not end")])
def test_known_hangs_are_named(steps: int, id: str, word: str) -> None:
    (finding,) = stalled(training(steps), 4000)
    assert finding.id == id and word in finding.message + finding.fix


def test_a_start_without_a_word_is_named() -> None:
    (finding,) = stalled(Evidence(), 1500)
    assert finding.id == "RLX891" and "pg.ready" in finding.fix
    assert stalled(Evidence(), 600) == []
    assert list(stalls(Evidence(), PLAN, Quiet(None, 10.0, 5000.0))) == []


def test_a_log_without_a_metrics_file_is_judged_by_its_own_age() -> None:
    assert is_stalled(training(15), PLAN, Quiet(None, 1100.0, 9000.0))
    assert not is_stalled(training(15), PLAN, Quiet(10.0, 1100.0, 9000.0))
