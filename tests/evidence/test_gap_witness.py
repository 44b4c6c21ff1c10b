"""The gap as a witness, on simulated runs whose truth is known: a small version of benchmarks/false_dissent.py."""

from __future__ import annotations

import math
from itertools import product

import pytest
from numpy.random import default_rng

from benchmarks.false_dissent import BUDGET, Line, share
from benchmarks.simulated_gaps import FLOORS, SCHEDULES, Simulated
from rlx.evidence.checks.gap_test import DosedStep, DoseResponse, GapOutcome, steps_off

FLOAT, WALK = "float32", "bfloat16, random walk"


@pytest.mark.parametrize("floor", FLOORS)
def test_honest_runs_are_not_accused(floor: str) -> None:
    kinds = [Simulated(floor, schedule, steps) for schedule, steps in product(SCHEDULES, (10, 20, 60, 200))]
    dissents = [share(kind, "honest", 60, seed=1)[0] for kind in kinds]
    assert dissents == [0.0] * len(kinds)


@pytest.mark.parametrize(("floor", "steps", "least"), [(FLOAT, 20, 1.0), (FLOAT, 100, 1.0), (WALK, 60, 0.9)])
def test_noise_of_sigma_005_that_never_was_is_found(floor: str, steps: int, least: float) -> None:
    dissents, agrees = share(Simulated(floor, "5 stages", steps), "never", 60, seed=2)
    assert dissents >= least and agrees == 0.0


@pytest.mark.parametrize("steps", [20, 100])
def test_noise_that_came_a_step_late_is_found_in_float32(steps: int) -> None:
    assert share(Simulated(FLOAT, "5 stages", steps), "one_step_late", 60, seed=3)[0] >= 0.9


@pytest.mark.parametrize("floor", FLOORS)
def test_a_gap_that_does_not_follow_sigma_does_not_agree(floor: str) -> None:
    assert share(Simulated(floor, "5 stages", 60), "raised_and_flat", 60, seed=4)[1] <= 0.05


@pytest.mark.parametrize("steps", [60, 300])
@pytest.mark.parametrize("kind", [{"sigma": 0.01}, {"sigma": 0.05, "level": 0.025}])
def test_below_its_power_the_gap_is_inconclusive(kind: dict[str, float], steps: int) -> None:
    for way in ("honest", "never"):
        assert share(Simulated(WALK, "5 stages", steps, **kind), way, 60, seed=5)[0] == 0.0


@pytest.mark.parametrize(("way", "status"), [("honest", "valid"), ("never", "unverified")])
def test_the_verdict_says_what_the_gap_says(way: str, status: str) -> None:
    kind, rng = Simulated(WALK, "5 stages", 60), default_rng(6)
    for _ in range(10):
        gaps = getattr(kind, way)(rng)
        verdict, witness = kind.judged(gaps), kind.witness(gaps)
        assert (verdict.status, verdict.dissent) == (status, witness.outcome is GapOutcome.DISAGREES)


def test_a_line_of_the_table_is_broken_beyond_the_error_of_its_simulation() -> None:
    assert not Line("", 3000, [(BUDGET, 1.0)]).broken
    assert Line("", 3000, [(0.003, 1.0)]).broken and "**too often**" in str(Line("", 3000, [(0.003, 1.0)]))


def test_a_gap_of_exactly_nothing_has_an_answer() -> None:
    steps = [DosedStep(step, 0.0, *((0.05, 0.003) if step > 4 else (0.0, 0.0))) for step in range(1, 21)]
    assert DoseResponse(steps).outcome is GapOutcome.DISAGREES
    assert steps_off(steps) == 0


@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("dose", [0.0, 0.05])
def test_few_steps_are_inconclusive(steps: int, dose: float) -> None:
    few = [DosedStep(step, 1e-3, dose, 1e-3) for step in range(1, steps + 1)]
    assert DoseResponse(few).outcome is GapOutcome.INCONCLUSIVE
    assert steps_off(few) == 0


@pytest.mark.parametrize(("doses", "outcome"), [((0, 7, 1), GapOutcome.AGREES), ((0, 7, 6), "inconclusive")])
def test_ten_steps_in_three_stages_are_enough_to_agree(doses: tuple[int, ...], outcome: str) -> None:
    """Three steps above seven, one chance in 120, and above three of weaker noise, one in 20."""
    stages = [0] * 4 + [1] * 3 + [2] * 3
    gaps = [1e-3 * doses[stage] * (1 + 0.1 * math.sin(3 * step)) + 1e-7 for step, stage in enumerate(stages)]
    sigmas = (0.0, 0.05, 0.0005)
    steps = [DosedStep(step, gap, sigmas[stage]) for step, (gap, stage) in enumerate(zip(gaps, stages, strict=True), 1)]
    assert DoseResponse(steps).outcome == outcome


def late(levels: list[float], width: int, borders: int) -> list[DosedStep]:
    """Stages of these levels and so many steps; at the first so many borders the gap follows a step late."""
    steps = []
    for stage, level in enumerate(levels):
        for index in range(width):
            is_late = index == 0 and 0 < stage <= borders
            gap = levels[stage - 1] if is_late else level
            steps.append(DosedStep(len(steps) + 1, gap * (1 + 0.05 * math.sin(3 * len(steps))), 1.0 / (stage + 1)))
    return steps


@pytest.mark.parametrize(("width", "borders", "off"), [(4, 4, 1), (4, 3, 0), (20, 3, 1), (20, 1, 0), (3, 4, 0)])
def test_several_borders_must_be_late_together(width: int, borders: int, off: int) -> None:
    """Four of four steps: one chance in 256; in stages of three steps one in 81, which is too many."""
    levels = [1e-7, 7e-3, 2e-3, 3e-4, 6e-5]
    assert steps_off(late(levels, width, borders)) == off
