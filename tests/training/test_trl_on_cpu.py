"""Real TRL with transformers' generation. `make trl` makes the environment, which is its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.training.conftest import Laptop, metrics
from tests.training.test_tiny_cpu import noise_events, records, validations

PYTHON = REPOSITORY / ".venv-trl/bin/python"
RECIPE = REPOSITORY / "recipes/tiny-trl.yaml"
PATIENCE_S = 900

pytestmark = [
    pytest.mark.training,
    pytest.mark.timeout(2 * PATIENCE_S),
    pytest.mark.skipif(not PYTHON.exists(), reason="needs the environment with TRL: make trl"),
]


@pytest.fixture(scope="module")
def laptop(new_laptop: Callable[[], Laptop]) -> Laptop:
    return new_laptop()


@pytest.fixture(scope="module")
def run_dirs(laptop: Laptop) -> dict[str, Path]:
    """Both arms, trained to the end and judged valid without a finding."""
    laptop.rlx("launch", str(RECIPE), "--host", "local", "--arm", "all", "--set", f"backend.python={PYTHON}")
    laptop.rlx("wait", "baseline", "aqn", timeout_s=PATIENCE_S)
    rows = {row["arm"]: row for row in laptop.status()}
    for row in rows.values():
        assert (row["state"], row["verdict"]["status"], row["verdict"]["findings"]) == ("finished", "valid", []), row
    return {arm: Path(row["run_dir"]) for arm, row in rows.items()}


def test_the_model_that_generates_felt_the_noise_and_nothing_else(run_dirs: dict[str, Path]) -> None:
    for arm, noisy in (("baseline", set()), ("aqn", set(range(5, 21)))):
        looks = records(run_dirs[arm], "probe")
        assert {look["step"] for look in looks if look["phase"] == "rollout"} == set(range(1, 22))
        assert {look["step"] for look in looks if look["phase"] == "validation"} == {0, 5, 10, 15, 20}
        assert all((look["floor"], look["missing"]) == (0.0, "") for look in looks)
        assert {look["step"] for look in looks if look["phase"] == "rollout" and look["delta"] > 0} == noisy
        assert all(look["delta"] == 0 for look in looks if look["phase"] == "validation")


def test_the_noise_stood_until_the_call_had_ended_and_was_gone_in_the_update(run_dirs: dict[str, Path]) -> None:
    """What the next record finds is what this one left; the weights between are the trainer's own, and clean."""
    events = noise_events(run_dirs["aqn"])
    for before, event in itertools.pairwise(events):
        assert event["digest_before"] == before["digest_after"]
        assert event["restored"] == (5 if before["sigma"] > 0 else 0)


def test_the_gap_follows_the_noise(run_dirs: dict[str, Path]) -> None:
    gaps = {
        arm: {step: values["rollout/probs_diff_mean"] for step, values in metrics(run_dir).items() if step}
        for arm, run_dir in run_dirs.items()
    }
    noisy = {event["step"] for event in noise_events(run_dirs["aqn"]) if event["sigma"] > 0}
    clean = [gaps["aqn"][step] for step in set(range(1, 21)) - noisy] + list(gaps["baseline"].values())
    assert min(gaps["aqn"][step] for step in noisy) > 20 * max(clean)


def test_the_arms_are_the_same_until_the_noise_begins(run_dirs: dict[str, Path]) -> None:
    """Neither the noise nor the probe draws from the trainer's random numbers."""
    rewards = {arm: [metrics(run_dir)[step]["reward"] for step in range(1, 5)] for arm, run_dir in run_dirs.items()}
    assert rewards["baseline"] == rewards["aqn"]


def test_a_validation_is_the_mean_of_its_answers(run_dirs: dict[str, Path], laptop: Laptop) -> None:
    assert set(validations(run_dirs["baseline"])) == {0, 5, 10, 15, 20}
    said = laptop.rlx("compare", "baseline", "aqn").stdout
    assert "n = 100 items that both answered" in said
