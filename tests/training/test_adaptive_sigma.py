"""Sigma that follows the gap, and two draws a group, in a real training, which also logs to trackers.

The trainer tells what it measured, the rollout draws, and the verdict computes both again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.trackers import readers
from tests.training.conftest import Laptop, metrics
from tests.training.test_tiny_cpu import noise_events, probability_gaps, records

PATIENCE_S = 1200
PROJECT = "followed"
TARGET, GAIN = 0.004, 0.5
# Ten steps in three stages: the first 4 are clean.
FIRST, LAST = 5, 10
SETTINGS = {
    "train.steps": "10",
    "eval.every": "5",
    "train.batch_size": "8",
    "train.mini_batch_size": "8",
    "train.micro_batch_size": "64",
    "rollout.log_prob_micro_batch_size": "64",
    "arms.aqn.aqn": "{sigma_start: 0.05, sigma_end: 0.05, stages: 3, schedule: adaptive, perturbations: 2, adaptive: "
    f"{{target: {{gap: {TARGET}}}, gain: {GAIN}, sigma_min: 0.005, sigma_max: 0.2}}}}",
    # The last one's package is not there.
    "track": f"{{to: [tensorboard, wandb, swanlab], project: {PROJECT}}}",
}


@pytest.fixture(scope="module")
def row(new_laptop: Callable[[], Laptop]) -> dict[str, Any]:
    laptop = new_laptop()
    sets = [word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")]
    (run,) = laptop.launch("--arm", "aqn", *sets)
    laptop.rlx("wait", run, timeout_s=PATIENCE_S)
    (found,) = laptop.status(run)
    return found


def test_the_run_is_valid_with_all_links(row: dict[str, Any]) -> None:
    assert (row["state"], row["verdict"]["status"]) == ("finished", "valid"), row["verdict"]
    assert not {"RLX696", "RLX697", "RLX698"} & {finding["id"] for finding in row["verdict"]["findings"]}
    assert re.search(rf"\bgap\b.* {TARGET:g}\b", row["verdict"]["sentence"])


def test_each_sigma_follows_from_the_gap_of_the_step_before(row: dict[str, Any]) -> None:
    run_dir = Path(row["run_dir"])
    gaps = probability_gaps(run_dir)
    events = [event for event in noise_events(run_dir) if event["phase"] == "rollout"]
    sigma = {FIRST: 0.05}
    for step in range(FIRST, LAST):
        moved = sigma[step] * (1 + GAIN) if gaps[step] <= TARGET else sigma[step] / (1 + GAIN)
        sigma[step + 1] = min(max(moved, 0.005), 0.2)
    assert {event["step"]: event["sigma"] for event in events if event["sigma"] > 0} == pytest.approx(sigma)
    assert len(set(sigma.values())) > 1
    assert all(event["measured"] == gaps[event["step"] - 1] for event in events if event["step"] > 1)
    assert {event["target"] for event in events} == {TARGET}


def test_each_draw_generated_half_of_the_answers(row: dict[str, Any]) -> None:
    assert "2 draws" in row["verdict"]["sentence"]
    lines = noise_events(Path(row["run_dir"]))
    answers: dict[tuple[int, int], int] = {}
    for line, after in pairwise(lines):
        if line["sigma"] > 0:
            key = line["step"], line["draw"]
            answers[key] = answers.get(key, 0) + after["answered"]
    assert answers == {(step, draw): 32 for step in range(FIRST, LAST + 1) for draw in (0, 1)}
    prints = {(line["step"], line["draw"]): line["fingerprint"] for line in lines if line["sigma"] > 0}
    assert len(set(prints.values())) == len(prints) == 12


def test_validations_are_clean_and_the_engine_felt_the_rest(row: dict[str, Any]) -> None:
    run_dir = Path(row["run_dir"])
    assert all(event["sigma"] == 0 for event in noise_events(run_dir) if event["phase"] == "validation")
    looks = [look for look in records(run_dir, "probe") if look["phase"] == "rollout"]
    assert {look["step"] for look in looks if look["delta"] > 0} == set(range(FIRST, LAST + 1))


def test_its_trackers_have_each_step_and_a_missing_one_cost_nothing(row: dict[str, Any]) -> None:
    attempt = Path(row["run_dir"]) / "latest"
    assert re.search("^rlx: .*swanlab", (attempt / "log").read_text(encoding="utf-8"), re.MULTILINE)
    rewards = {step: values["critic/score/mean"] for step, values in metrics(Path(row["run_dir"])).items() if step}
    written = readers.tensorboard(attempt, "track")
    (events,) = (series for name, (_, series) in written.items() if name.startswith("events.out"))
    ((_, logged),) = readers.wandb(attempt / "track", PROJECT).values()
    for series in (events, logged):
        assert {step: series["critic/score/mean"][step] for step in rewards} == pytest.approx(rewards)
