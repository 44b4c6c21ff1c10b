"""DAPO in a real training: groups without an advantage are dropped and others generated, with noise and probe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.training.conftest import Laptop, metrics
from tests.training.test_tiny_cpu import noise_events, records

PATIENCE_S = 1200
DROPPED = "training/filter_groups/evicted_samples"
# Eight steps in three stages: the first 3 are clean. With 4 answers a prompt many groups score all alike.
STEPS, FIRST = 8, 4
SETTINGS = {
    "train.steps": f"{STEPS}",
    "eval.every": "4",
    "train.batch_size": "8",
    "train.mini_batch_size": "8",
    "train.micro_batch_size": "32",
    "rollout.n": "4",
    "rollout.log_prob_micro_batch_size": "32",
    "arms.aqn.aqn.stages": "3",
}


@pytest.fixture(scope="module")
def row(new_laptop: Callable[[], Laptop]) -> dict[str, Any]:
    laptop = new_laptop()
    recipe = str(REPOSITORY / "recipes/tiny-cpu-dapo.yaml")
    sets = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    (run,) = laptop.rlx("launch", recipe, "--host", "local", "--arm", "aqn", *sets).stdout.split()
    laptop.rlx("wait", run, timeout_s=PATIENCE_S)
    (found,) = laptop.status(run)
    return found


def test_the_run_is_valid_and_its_steps_are_those_of_the_plan(row: dict[str, Any]) -> None:
    assert (row["state"], row["verdict"]["status"]) == ("finished", "valid"), row["verdict"]
    assert row["verdict"]["findings"] == []
    assert max(metrics(Path(row["run_dir"]))) == STEPS


def test_steps_generated_again_until_enough_groups_differed(row: dict[str, Any]) -> None:
    by_step = metrics(Path(row["run_dir"]))
    dropped = {step: values[DROPPED] for step, values in by_step.items() if DROPPED in values}
    assert sum(dropped.values()) >= 3 and len(dropped) >= 2, dropped
    # No group that scored alike was trained on: the advantages of each step differ.
    assert all(values["critic/advantages/max"] > 0 for step, values in by_step.items() if step)


def test_every_generation_of_a_step_is_under_its_noise_and_the_engine_felt_it(row: dict[str, Any]) -> None:
    run_dir = Path(row["run_dir"])
    noisy = set(range(FIRST, STEPS + 1))
    events = [event for event in noise_events(run_dir) if event["phase"] == "rollout"]
    assert {event["step"] for event in events if event["sigma"] > 0} == noisy
    prints = {(event["step"], event["fingerprint"]) for event in events if event["sigma"] > 0}
    assert len(prints) == len(noisy), "one draw a step, however often it generates"
    for look in records(run_dir, "probe"):
        assert (look["delta"] > 0) == (look["phase"] == "rollout" and look["step"] in noisy), look
    assert all(event["sigma"] == 0 for event in noise_events(run_dir) if event["phase"] == "validation")
