"""A plan survives JSON unchanged; what does not fit is named; the schedule is QeRL's."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.errors import UsageError
from rlx.model import (
    Expectations,
    Finding,
    LaunchPlan,
    NoiseSchedule,
    PlannedFile,
    Severity,
    Site,
    from_jsonable,
    sigmas_by_step,
    stage_sigmas,
    to_jsonable,
)

PLAN = LaunchPlan(
    name="tiny",
    arm="aqn",
    control="baseline",
    seed=1,
    backend="verl",
    backend_version="0.9.1",
    site=Site(path_prefix=("/opt/bin",)),
    command=("python3", "-m", "verl.trainer.main_ppo"),
    env={"A": "b c"},
    secrets=("WANDB_API_KEY",),
    files=(PlannedFile("launch.sh", "true\n", 0o700),),
    expectations=Expectations(
        total_steps=20,
        validation_steps=(0, 10, 20),
        last_step_validated=True,
        validation_items=100,
        validation_samples=1,
        metric="auto",
        noise=NoiseSchedule((0.0, 0.05), 10, ("rmsnorm",), "payload", False),
        reports_probability_gap=True,
    ),
    treatment=("aqn.sigma_start",),
    recipe={"aqn": {"sigma_start": 0.05, "exclude": []}, "seed": 1, "steps": None},
    device_kind="cpu",
    devices=1,
    findings=(Finding("RLX012", Severity.NOTE, "nearest key table"),),
)


def test_a_plan_survives_json_unchanged() -> None:
    assert from_jsonable(LaunchPlan, json.loads(json.dumps(to_jsonable(PLAN)))) == PLAN


def test_what_an_earlier_version_did_not_know_has_its_default() -> None:
    document = to_jsonable(PLAN)
    for name in ("witness", "correction"):
        del document["expectations"][name]
    del document["expectations"]["noise"]["min_trained_share"]
    assert from_jsonable(LaunchPlan, document) == PLAN


def test_a_run_is_named_after_recipe_arm_and_seed() -> None:
    assert replace(PLAN, seed=7).run_name == "tiny-aqn-s7"


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (("seed",), "1", "LaunchPlan.seed: expected int, found str"),
        (("seed",), True, "LaunchPlan.seed: expected int, found bool"),
        (("sede",), 1, "LaunchPlan: unknown field 'sede'"),
        (
            ("expectations", "noise", "sigmas"),
            [0.0, "x"],
            r"LaunchPlan.expectations.noise.sigmas\[1\]: expected float",
        ),
        (("findings",), [{"id": "RLX1"}], r"LaunchPlan.findings\[0\]: missing field"),
        (("env",), [], "LaunchPlan.env: expected dict, found list"),
    ],
)
def test_what_does_not_fit_is_named(path: tuple[str, ...], value: Any, complaint: str) -> None:
    document = to_jsonable(PLAN)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(UsageError, match=complaint):
        from_jsonable(LaunchPlan, document)


def test_the_schedule_of_the_published_example() -> None:
    """K = 10, T = 29, 0.05 → 0.0005: three clean steps, then .05 .0281 .0158 .00889 .005 .00281 .00158 .00089 .0005."""
    sigmas = sigmas_by_step(0.05, 0.0005, 10, 29)
    assert sigmas[:3] == (0.0, 0.0, 0.0)
    distinct = list(dict.fromkeys(sigmas[3:]))
    expected = [0.05, 0.0281, 0.0158, 0.00889, 0.005, 0.00281, 0.00158, 0.00089, 0.0005]
    assert distinct == pytest.approx(expected, rel=6e-3)


@given(st.integers(3, 40), st.integers(1, 2000))
def test_noise_never_grows_and_ends_at_its_last_stage(stages: int, total: int) -> None:
    sigmas = sigmas_by_step(0.05, 0.0005, stages, total)
    assert len(sigmas) == total
    assert sigmas[0] == 0.0
    noisy = [sigma for sigma in sigmas if sigma]
    assert noisy == sorted(noisy, reverse=True)
    if total >= stages:
        assert set(sigmas) == set(stage_sigmas(0.05, 0.0005, stages))


@pytest.mark.parametrize("stages", [0, 1, 2])
def test_fewer_than_three_stages_are_refused(stages: int) -> None:
    with pytest.raises(ValueError, match="at least 3 stages"):
        stage_sigmas(0.05, 0.0005, stages)
