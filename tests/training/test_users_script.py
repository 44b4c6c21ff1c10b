"""A launch script of the users' own, real verl on this CPU: as it is, and with noise that nothing in it knows of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import Laptop
from tests.training.test_tiny_cpu import noise_events

SCRIPT = Path(__file__).with_name("run_grpo.sh")
NOISE = "sigma_start=0.05,sigma_end=0.0005,stages=5,steps=20"


@pytest.fixture(scope="module")
def arms(new_laptop: Callable[[], Laptop]) -> tuple[Laptop, dict[str, Any]]:
    """The same script twice: as it is, and with noise around it."""
    laptop = new_laptop()
    launch = ("launch", "--script", str(SCRIPT), "--name", "mine", "--host", "local", "--follow")
    control = laptop.rlx(*launch, "--arm", "control").stdout.split()[0]
    noisy = laptop.rlx(*launch, "--arm", "aqn", "--aqn", NOISE).stdout.split()[0]
    return laptop, {row["arm"]: row for row in laptop.status(control, noisy)}


def test_both_ran_unchanged_and_are_held_to_what_they_printed(arms: tuple[Laptop, dict[str, Any]]) -> None:
    _, rows = arms
    for row in rows.values():
        assert (row["state"], row["steps_done"], row["last_validation"]["step"]) == ("finished", 20, 20), row
        assert row["verdict"]["status"] == "valid"
        assert "5 validations" in row["verdict"]["sentence"] and "step 20" in row["verdict"]["sentence"]
        assert (Path(row["run_dir"]) / "script" / SCRIPT.name).read_bytes() == SCRIPT.read_bytes()
    found = {arm: {finding["id"] for finding in row["verdict"]["findings"]} for arm, row in rows.items()}
    assert found == {"control": {"RLX716"}, "aqn": {"RLX716", "RLX679"}}


def test_the_noise_came_from_outside_and_left_the_validations_alone(arms: tuple[Laptop, dict[str, Any]]) -> None:
    _, rows = arms
    events = noise_events(Path(rows["aqn"]["run_dir"]))
    assert {each["step"] for each in events if each["phase"] == "rollout" and each["sigma"] > 0} == set(range(5, 21))
    assert all(each["sigma"] == 0 for each in events if each["phase"] == "validation")
    assert rows["aqn"]["noise"] != rows["control"]["noise"]
    assert not noise_events(Path(rows["control"]["run_dir"]))


def test_they_are_compared(arms: tuple[Laptop, dict[str, Any]]) -> None:
    laptop, rows = arms
    names = [rows[arm]["run_id"] for arm in ("control", "aqn")]
    document = json.loads(laptop.rlx("compare", *names, "--json").stdout)
    assert (document["reportable"], document["verified"]) == (True, True)
    assert "aqn: null → sigma 0.05 to 0.0005 in 5 stages" in laptop.rlx("compare", *names).stdout
