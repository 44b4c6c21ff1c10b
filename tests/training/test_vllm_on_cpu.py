"""Real verl with the real vLLM (its CPU build) under the hooks. `make vllm` makes the environment, which is its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rlx.resources import payload_folder
from tests.conftest import REPOSITORY
from tests.training.conftest import Laptop
from tests.training.test_tiny_cpu import noise_events, probability_gaps, records

PYTHON = REPOSITORY / ".venv-vllm/bin/python"
PATIENCE_S = 1800

pytestmark = [
    pytest.mark.training,
    pytest.mark.timeout(2 * PATIENCE_S),
    pytest.mark.skipif(not PYTHON.exists(), reason="needs the environment with vLLM: make vllm"),
]

STEPS = range(1, 11)
# Ten steps in three stages: 4 clean and 6 noisy ones are the fewest of which both witnesses are sure (1 %).
NOISY = set(range(5, 11))
VALIDATIONS = {0, 5, 10}
SETTINGS = {
    "rollout.engine": "vllm",
    "backend.python": str(PYTHON),
    "train.steps": "10",
    "eval.every": "5",
    "arms.aqn.aqn.stages": "3",
    "train.batch_size": "8",
    "train.mini_batch_size": "8",
    "train.micro_batch_size": "32",
    "rollout.log_prob_micro_batch_size": "32",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with heads of 32, the smallest that vLLM's attention on a CPU knows."""
    folder = tmp_path_factory.mktemp("tiny")
    program = f"import sys; sys.path.insert(0, {str(payload_folder())!r}); import pathlib, tiny_addition as tiny; "
    program += f"tiny.make(pathlib.Path({str(folder)!r}), warm_up_steps=160, heads=2)"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=600)
    return folder / "model"


@pytest.fixture(scope="module")
def one_engine(new_laptop: Callable[[], Laptop], model: Path) -> dict[str, Path]:
    """Both arms with full weights on one device."""
    return honest(new_laptop(), "all", model, {})


def honest(laptop: Laptop, arm: str, model: Path, settings: Mapping[str, str]) -> dict[str, Path]:
    """The directories of the runs by arm, trained to the end and judged valid without a finding."""
    rows = trained(laptop, arm, model, settings)
    for row in rows:
        assert (row["state"], row["verdict"]["status"], row["verdict"]["findings"]) == ("finished", "valid", []), row
    return {row["arm"]: Path(row["run_dir"]) for row in rows}


def trained(laptop: Laptop, arm: str, model: Path, settings: Mapping[str, str]) -> list[dict[str, Any]]:
    """What `rlx status` says of each run, once all have come to their end."""
    every = {**SETTINGS, "model.path": str(model), **settings}
    sets = [word for key, value in every.items() for word in ("--set", f"{key}={value}")]
    runs = laptop.launch("--arm", arm, *sets)
    laptop.rlx("wait", *runs, code=None, timeout_s=PATIENCE_S)
    return laptop.status(*runs)


def felt(run_dir: Path, phase: str) -> set[int]:
    """The steps at which the engine that serves scores otherwise than on clean weights; no look is missing."""
    looks = [look for look in records(run_dir, "probe") if look["phase"] == phase]
    assert {look["step"] for look in looks} == ({*STEPS, 11} if phase == "rollout" else VALIDATIONS)
    assert all((look["floor"], look["missing"]) == (0.0, "") for look in looks), looks
    return {look["step"] for look in looks if look["delta"] > 0}


def test_the_engine_felt_the_noise_and_nothing_else(one_engine: dict[str, Path]) -> None:
    for arm, noisy in (("baseline", set()), ("aqn", NOISY)):
        assert felt(one_engine[arm], "rollout") == noisy
        assert felt(one_engine[arm], "validation") == set()


def test_the_gap_follows_the_noise(one_engine: dict[str, Path]) -> None:
    gaps = {arm: probability_gaps(run_dir) for arm, run_dir in one_engine.items()}
    noisy = {event["step"] for event in noise_events(one_engine["aqn"]) if event["sigma"] > 0 and event["step"] <= 10}
    assert noisy == NOISY
    clean = [gaps["aqn"][step] for step in set(STEPS) - noisy] + list(gaps["baseline"].values())
    assert min(gaps["aqn"][step] for step in noisy) > 20 * max(clean)
