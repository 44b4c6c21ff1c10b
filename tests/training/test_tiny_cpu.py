"""The main job on real input: verl, Ray and GRPO on this machine's CPU, judged by its own evidence."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import Laptop, assert_nothing_is_left, metrics, processes_of

pytestmark = pytest.mark.training


def test_both_arms_are_valid_and_learn(demo: Laptop) -> None:
    rows = {row["arm"]: row for row in demo.status()}
    assert {arm: (row["state"], row["verdict"]["status"]) for arm, row in rows.items()} == {
        "baseline": ("finished", "valid"),
        "aqn": ("finished", "valid"),
    }, rows
    document = json.loads(demo.rlx("compare", "baseline", "aqn", "--json").stdout)
    assert document["reportable"] is True
    for row in rows.values():
        values = validations(Path(row["run_dir"]))
        assert sorted(values) == [0, 5, 10, 15, 20]
        assert values[20] > values[0] + 0.2, f"accuracy hardly rose: {values}"


def test_both_witnesses_saw_the_noise(demo: Laptop) -> None:
    gap = {row["arm"]: probability_gaps(Path(row["run_dir"])) for row in demo.status()}
    events = [event for row in demo.status("aqn") for event in noise_events(Path(row["run_dir"]))]
    noisy = {e["step"] for e in events if e["phase"] == "rollout" and e["sigma"] > 0 and e["step"] <= 20}
    clean = set(range(1, 21)) - noisy
    assert noisy and clean
    assert min(gap["aqn"][step] for step in noisy) > 100 * max(gap["aqn"][step] for step in clean)
    assert min(gap["aqn"][step] for step in noisy) > 100 * max(gap["baseline"].values())
    assert all(e["sigma"] == 0 for e in events if e["phase"] == "validation")


def test_the_control_looked_at_each_step_and_saw_nothing(demo: Laptop) -> None:
    control, treatment = (Path(demo.status(arm)[0]["run_dir"]) for arm in ("baseline", "aqn"))
    assert places(control, "noise") == places(treatment, "noise"), "the same looks at the same moments"
    assert places(control, "probe") == places(treatment, "probe")
    assert {step for phase, step in places(control, "probe") if phase == "rollout"} == set(range(1, 22))
    assert {step for phase, step in places(control, "probe") if phase == "validation"} == {0, 5, 10, 15, 20}
    for look in records(control, "probe"):
        assert (look["delta"], look["floor"], look["sigma"], look["missing"]) == (0.0, 0.0, 0.0, ""), look
    events = noise_events(control)
    for event in events:
        assert (event["sigma"], event["changed"], event["layers"], event["restored"]) == (0.0, 0, 0, 0), event
        assert event["digest_clean"] == event["digest_after"] != ""
    assert [event["digest_before"] for event in events] == ["", *(event["digest_after"] for event in events[:-1])]
    (told,) = records(control, "settings")
    assert (told["sigma_start"], len(told["layers"])) == (0.0, 5)
    (sentence,) = (row["verdict"]["sentence"] for row in demo.status("baseline"))
    assert re.search(r"digest at 20 .*probe at 20 of 20 steps", sentence)


def test_compare_speaks_of_checkpoints_and_not_of_the_treatment(demo: Laptop) -> None:
    assert "n = 100 items" in demo.rlx("compare", "baseline", "aqn").stdout
    (contrast,) = json.loads(demo.rlx("compare", "baseline", "aqn", "--json").stdout)["contrasts"]
    assert contrast["test"]["n"] == 100
    # A test of two checkpoints names their runs; one of the treatment names none.
    assert contrast["checkpoints"] == [demo.status(arm)[0]["run_id"] for arm in ("baseline", "aqn")]


def test_logs_of_the_latest_launch_are_marked_with_their_arm(demo: Laptop) -> None:
    lines = demo.rlx("logs", "--grep", "val-core").stdout.splitlines()
    assert {line.split(" | ")[0] for line in lines} == {"baseline", "aqn"}
    assert all("val-core" in line for line in lines)


def test_nothing_of_the_demo_is_left_behind(demo: Laptop) -> None:
    for row in demo.status():
        assert_nothing_is_left(row["run_id"])
        assert not list(Path(row["run_dir"]).glob("env"))


def test_stop_reaches_every_ray_process_and_no_neighbour(new_laptop: Callable[[], Laptop]) -> None:
    """Two runs at once on one machine: neither shares anything with the other, and stopping one leaves the other."""
    first, second = new_laptop(), new_laptop()
    (one,) = first.launch("--arm", "baseline")
    (two,) = second.launch("--arm", "aqn", "--set", "train.steps=6", "--set", "eval.every=6")
    first.until(one, lambda row: row["steps_done"] >= 1)
    second.until(two, lambda row: row["state"] == "running")
    # Ray's temp folder, its sockets and its token carry the run's own folder in their names.
    assert private_folder(first, one) != private_folder(second, two)
    assert any("raylet" in line for line in processes_of(one).values())
    assert not any(private_folder(second, two) in line for line in processes_of(one).values())
    first.rlx("stop", one)
    assert not processes_of(one)
    assert not Path(private_folder(first, one)).exists()
    assert first.rlx("wait", one, code=13)
    row = second.until(two, lambda row: row["state"] == "finished")
    assert row["steps_done"] == 6


@pytest.mark.parametrize("victim", ["ray::WorkerDict", "verl.trainer.main_ppo"])
def test_a_killed_process_of_the_trainer_is_a_failure(new_laptop: Callable[[], Laptop], victim: str) -> None:
    laptop = new_laptop()
    (run,) = laptop.launch("--arm", "aqn")
    laptop.until(run, lambda row: row["steps_done"] >= 1)
    pids = [pid for pid, line in processes_of(run).items() if victim in line and "supervise.sh" not in line]
    assert pids
    for pid in pids:
        with suppress(ProcessLookupError):  # the end of the one before may have been its own
            os.kill(pid, signal.SIGKILL)
    assert "failed" in laptop.rlx("wait", run, code=10).stdout
    row = laptop.status(run)[0]
    assert row["verdict"]["status"] == "incomplete"
    assert "RLX801" in {finding["id"] for finding in row["verdict"]["findings"]}
    assert_nothing_is_left(run)


def validations(run_dir: Path) -> dict[int, float]:
    return {
        step: value
        for step, data in metrics(run_dir).items()
        for key, value in data.items()
        if key.startswith("val-core/")
    }


def probability_gaps(run_dir: Path) -> dict[int, float]:
    key = "training/rollout_probs_diff_mean"
    return {step: data[key] for step, data in metrics(run_dir).items() if key in data}


def noise_events(run_dir: Path) -> list[dict[str, Any]]:
    return records(run_dir, "noise")


def records(run_dir: Path, kind: str) -> list[dict[str, Any]]:
    files = sorted((run_dir / "latest/events").glob("*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["kind"] == kind]


def places(run_dir: Path, kind: str) -> list[tuple[str, int]]:
    """What was looked at, in order."""
    return [(line["phase"], line["step"]) for line in records(run_dir, kind)]


def private_folder(laptop: Laptop, run: str) -> str:
    run_dir = Path(laptop.status(run)[0]["run_dir"])
    return (run_dir / "latest/state/ray_tmp").read_text(encoding="utf-8").strip()
