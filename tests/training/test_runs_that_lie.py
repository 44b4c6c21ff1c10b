"""Real trainings whose rollouts do otherwise than planned: the verdict names each fault, and accuses nothing else.

Two trainings, each with several faults, brought in as a user's own plugin of verl would bring them. Honest runs of the
same kind are in test_noise_on_two_workers.py and test_tiny_cpu.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import Laptop
from tests.training.test_tiny_cpu import noise_events, probability_gaps, records

pytestmark = pytest.mark.training

PATIENCE_S = 1200
SABOTAGE = Path(__file__).with_name("sabotage")
NOISY = range(3, 7)
SETTINGS = {
    "train.steps": "6",
    "eval.every": "3",
    "arms.aqn.aqn.stages": "3",
    "train.batch_size": "8",
    "train.mini_batch_size": "8",
    "train.micro_batch_size": "32",
    "rollout.log_prob_micro_batch_size": "32",
}


@pytest.fixture(scope="module")
def one_replica_without_hook(new_laptop: Callable[[], Laptop]) -> dict[str, Any]:
    return trained(new_laptop(), "one_replica_without_hook", {"layout.devices_per_node": "2"})


@pytest.fixture(scope="module")
def untold_weights(new_laptop: Callable[[], Laptop]) -> dict[str, Any]:
    return trained(new_laptop(), "untold_weights", {})


def trained(laptop: Laptop, plugin: str, settings: dict[str, str]) -> dict[str, Any]:
    """What `rlx status` says of a run with the plugin, once it has come to its end."""
    plugged = {"env.PYTHONPATH": str(SABOTAGE), "overrides.actor_rollout_ref.model.external_lib": plugin}
    sets = [word for key, value in (SETTINGS | settings | plugged).items() for word in ("--set", f"{key}={value}")]
    (run,) = laptop.launch("--arm", "aqn", *sets)
    laptop.rlx("wait", run, code=14, timeout_s=PATIENCE_S)
    (row,) = laptop.status(run)
    assert row["state"] == "finished", row
    return row


def said(row: dict[str, Any]) -> dict[str, str]:
    """The message of each finding by its id, which no two share."""
    findings = row["verdict"]["findings"]
    messages = {finding["id"]: finding["message"] for finding in findings}
    assert len(messages) == len(findings), findings
    return messages


def test_a_replica_without_the_hook_is_named(one_replica_without_hook: dict[str, Any]) -> None:
    silent = said(one_replica_without_hook)["RLX672"]
    assert "1 of 2 processes" in silent and silent.endswith(": replica 1")
    assert {event["replica"] for event in noise_events(Path(one_replica_without_hook["run_dir"]))} == {0}


def test_the_same_noise_at_each_step_is_invalid(one_replica_without_hook: dict[str, Any]) -> None:
    assert one_replica_without_hook["verdict"]["status"] == "invalid"
    assert re.search(r"replica 0 .*steps 3-6$", said(one_replica_without_hook)["RLX676"])
    noisy = [event for event in noise_events(Path(one_replica_without_hook["run_dir"])) if event["sigma"] > 0]
    assert {event["step"] for event in noisy} == set(NOISY)
    assert len({event["fingerprint"] for event in noisy}) == 1


def test_nothing_else_of_the_replica_with_the_hook_is_accused(one_replica_without_hook: dict[str, Any]) -> None:
    """Its settings, layers, digests and looks are those of an honest run."""
    assert said(one_replica_without_hook).keys() == {"RLX676", "RLX672"}
    run_dir = Path(one_replica_without_hook["run_dir"])
    for look in records(run_dir, "probe"):
        is_noisy = look["phase"] == "rollout" and look["step"] in NOISY
        assert not look["missing"] and (look["delta"] > 0) == is_noisy, look
    gaps = probability_gaps(run_dir)
    assert min(gaps[step] for step in NOISY) > 10 * max(gaps[1], gaps[2]), "half of the rollouts are noisy"


def test_noise_of_the_right_size_on_another_layer_is_invalid(untold_weights: dict[str, Any]) -> None:
    assert untold_weights["verdict"]["status"] == "invalid"
    message = said(untold_weights)["RLX674"]
    assert re.search(r"model\.norm .*model\.layers\.0\.self_attn\.q_proj", message)
    noisy = [event for event in noise_events(Path(untold_weights["run_dir"])) if event["sigma"] > 0]
    assert {(event["layers"], event["elements"], event["changed"]) for event in noisy} == {(5, 320, 320)}


def test_the_probe_sees_noise_of_which_no_record_tells(untold_weights: dict[str, Any]) -> None:
    messages = said(untold_weights)
    assert "step 2 " in messages["RLX681"] and "step 3 " in messages["RLX688"]
    quiet = [event for event in noise_events(Path(untold_weights["run_dir"])) if event["sigma"] == 0]
    # No digest shows it: the norm that is noisy here is not among the layers that took noise.
    assert all(event["changed"] == 0 and event["digest_after"] == event["digest_clean"] for event in quiet)


def test_the_probe_misses_noise_that_was_recorded_and_did_not_stay(untold_weights: dict[str, Any]) -> None:
    messages = said(untold_weights)
    assert "step 5 " in messages["RLX680"] and re.search(r"step 6\b", messages["RLX684"])


def test_the_gap_of_the_trainer_says_what_the_probe_says(untold_weights: dict[str, Any]) -> None:
    gaps = probability_gaps(Path(untold_weights["run_dir"]))
    assert gaps[2] > 1000 * gaps[1] and gaps[5] < 10 * gaps[1] < gaps[6]


def test_nothing_else_of_the_untold_weights_is_accused(untold_weights: dict[str, Any]) -> None:
    assert said(untold_weights).keys() == {"RLX674", "RLX680", "RLX681", "RLX684", "RLX688"}
