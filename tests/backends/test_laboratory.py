"""The laboratory of arms: each differs from its control in what its name says, and in nothing else."""

from __future__ import annotations

import pytest

from rlx.backends.verl.backend import plan
from rlx.hosts import site_of
from rlx.model import LaunchPlan
from rlx.recipe import load_recipe

LABORATORIES = ("tiny-cpu-laboratory", "qwen2.5-1.5b-gsm8k-laboratory-npu")
SWEEPS = {"tiny-cpu-sigma": (0.01, 0.05, 0.2), "qwen2.5-1.5b-gsm8k-sigma-npu": (0.005, 0.01, 0.02, 0.05)}
CORRECTION = {
    f"algorithm.rollout_correction.{key}" for key in ("rollout_is", "rollout_is_threshold", "rollout_rs", "bypass_mode")
}


def plans(recipe: str) -> dict[str, LaunchPlan]:
    file = load_recipe(recipe)
    return {arm: plan(file.resolve(arm), site_of("local")) for arm in file.arms}


def settings(launch: LaunchPlan) -> dict[str, str]:
    """What the trainer is started with, but for the name of the run."""
    script = next(file.content for file in launch.files if file.path == "launch.sh")
    words = [line.strip(" \\'") for line in script.splitlines() if "=" in line and line.startswith("  ")]
    pairs = (word.lstrip("+").split("=", 1) for word in words)
    return {key: value for key, value in pairs if key != "trainer.experiment_name"}


def changed(one: LaunchPlan, other: LaunchPlan) -> set[str]:
    first, second = settings(one), settings(other)
    return {key for key in first.keys() | second.keys() if first.get(key) != second.get(key)}


@pytest.mark.parametrize("recipe", LABORATORIES)
def test_each_arm_changes_what_its_name_says(recipe: str) -> None:
    arms = plans(recipe)
    assert set(arms) == {"baseline", "tis", "aqn", "aqn-tis", "temperature"}
    assert changed(arms["baseline"], arms["tis"]) == CORRECTION == changed(arms["aqn"], arms["aqn-tis"])
    assert changed(arms["baseline"], arms["aqn"]) == set() == changed(arms["tis"], arms["aqn-tis"])
    assert changed(arms["baseline"], arms["temperature"]) == {"actor_rollout_ref.rollout.temperature"}


@pytest.mark.parametrize("recipe", LABORATORIES)
def test_noise_is_promised_of_the_noisy_arms_alone(recipe: str) -> None:
    promised = {arm: launch.expectations.noise for arm, launch in plans(recipe).items()}
    assert {arm for arm, noise in promised.items() if noise} == {"aqn", "aqn-tis"}
    assert promised["aqn"] == promised["aqn-tis"]


@pytest.mark.parametrize("recipe", SWEEPS)
def test_sizes_of_noise_stay_the_same_after_the_first_stage(recipe: str) -> None:
    arms = plans(recipe)
    assert list(arms) == ["baseline", *(f"sigma-{sigma:g}" for sigma in SWEEPS[recipe])]
    clean = set()
    for sigma in SWEEPS[recipe]:
        noise = arms[f"sigma-{sigma:g}"].expectations.noise
        assert noise and set(noise.sigmas) == {0.0, sigma}
        clean.add(sum(size == 0 for size in noise.sigmas))
        assert changed(arms["baseline"], arms[f"sigma-{sigma:g}"]) == set()
    assert len(clean) == 1
