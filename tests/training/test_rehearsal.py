"""rlx rehearse on real verl: a recipe that is sound, one whose reward function is not, and one that is interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.conftest import REPOSITORY
from tests.training.conftest import Laptop, processes_of

pytestmark = pytest.mark.training

PATIENCE_S = 3000


def rehearsed(laptop: Laptop, *arguments: str, code: int) -> dict[str, Any]:
    done = laptop.rlx("rehearse", *arguments, "--timeout", "45m", "--json", code=code, timeout_s=PATIENCE_S)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def passed(answer: dict[str, Any]) -> dict[str, bool | None]:
    return {check["name"]: check["passed"] for check in answer["checks"]}


@pytest.mark.timeout(PATIENCE_S)
def test_a_mixture_of_experts_passes(new_laptop: Callable[[], Laptop]) -> None:
    """Megatron on six NPUs becomes FSDP2 on two workers; experts stay experts, and the reward file is the user's."""
    laptop = new_laptop()
    answer = rehearsed(laptop, str(REPOSITORY / "recipes/qwen1.5-moe-a2.7b-gsm8k-npu6.yaml"), code=0)
    assert answer["passed"] and answer["findings"] == []
    assert all(passed(answer).values()) and len(passed(answer)) == 7
    assert answer["model"]["type"] == "qwen2_moe"
    assert any("Megatron" in one["what"] for one in answer["not_rehearsed"])
    # Nothing of it is left but the model, and it is no run of the user.
    assert answer["folder"] is None and not list((laptop.folder / "home/rehearsals").iterdir())
    assert laptop.status() == []


@pytest.mark.timeout(PATIENCE_S)
def test_a_reward_that_fails_only_when_it_is_called(new_laptop: Callable[[], Laptop], tmp_path: Path) -> None:
    """Reading the file tells nothing: verl's call does, and all but the reward is rehearsed, the noise too."""
    (tmp_path / "reward.py").write_text(
        "compute_score = lambda solution, truth: float(solution == truth)\n", encoding="utf-8"
    )
    reward = f"reward.path={tmp_path / 'reward.py'}"
    laptop = new_laptop()
    answer = rehearsed(laptop, "tiny-cpu", "--arm", "aqn", "--set", reward, code=5)
    (finding,) = [finding for finding in answer["findings"] if finding["id"] == "RLX561"]
    assert "unexpected keyword argument 'data_source'" in finding["message"]
    assert passed(answer)["reward"] is False
    assert passed(answer)["data read"] is True
    (run,) = Path(answer["folder"]).glob("runs/*")
    assert (run / "latest/log").is_file()
    assert not processes_of(run.name)
    assert laptop.status() == []


@pytest.mark.timeout(PATIENCE_S)
def test_an_interruption_leaves_nothing_behind(new_laptop: Callable[[], Laptop], wording: SnapshotAssertion) -> None:
    laptop = new_laptop()
    # Tests that a script started in the background ignore SIGINT, and so would their children.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "rlx", "rehearse", "tiny-cpu", "--arm", "aqn"]
    process = subprocess.Popen(
        command, env=laptop.environment(), cwd=laptop.folder, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    run = started(laptop, process)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, said
    assert [line for line in said.splitlines() if line.startswith("stopping")] == wording
    assert not processes_of(run)
    assert not list((laptop.folder / "home/rehearsals").iterdir())


def started(laptop: Laptop, process: subprocess.Popen[str]) -> str:
    """The id of the run, as soon as its Ray is there."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        assert process.poll() is None and time.monotonic() < deadline
        for run in laptop.folder.glob("home/rehearsals/*/runs/*-s1-*"):
            if any("raylet" in line for line in processes_of(run.name).values()):
                return run.name
        time.sleep(0.5)
