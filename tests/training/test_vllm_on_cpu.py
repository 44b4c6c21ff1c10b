"""Real verl with the real vLLM (its CPU build) under the hooks. `make vllm` makes the environment, which is its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rlx.resources import payload_folder
from tests.conftest import REPOSITORY
from tests.training.conftest import Laptop
from tests.training.test_tiny_cpu import noise_events, probability_gaps, records, validations

PYTHON = REPOSITORY / ".venv-vllm/bin/python"
PATIENCE_S = 2400

pytestmark = [
    pytest.mark.training,
    pytest.mark.timeout(2 * PATIENCE_S),
    pytest.mark.skipif(not PYTHON.exists(), reason="needs the environment with vLLM: make vllm"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with heads of 32, the smallest that vLLM's attention on a CPU knows."""
    folder = tmp_path_factory.mktemp("tiny")
    program = f"import sys; sys.path.insert(0, {str(payload_folder())!r}); import pathlib, tiny_addition as tiny; "
    program += f"tiny.make(pathlib.Path({str(folder)!r}), warm_up_steps=160, heads=2)"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=600)
    return folder / "model"


@pytest.fixture(scope="module")
def run_dirs(new_laptop: Callable[[], Laptop], model: Path) -> dict[str, Path]:
    """Both arms, trained to the end and judged valid without a finding."""
    laptop = new_laptop()
    engine = ("rollout.engine=vllm", f"backend.python={PYTHON}", f"model.path={model}")
    laptop.launch("--arm", "all", *(word for setting in engine for word in ("--set", setting)))
    laptop.rlx("wait", "baseline", "aqn", timeout_s=PATIENCE_S)
    rows = {row["arm"]: row for row in laptop.status()}
    for row in rows.values():
        assert (row["state"], row["verdict"]["status"], row["verdict"]["findings"]) == ("finished", "valid", []), row
    return {arm: Path(row["run_dir"]) for arm, row in rows.items()}


def test_the_engine_felt_the_noise_and_nothing_else(run_dirs: dict[str, Path]) -> None:
    for arm, noisy in (("baseline", set()), ("aqn", set(range(5, 21)))):
        looks = records(run_dirs[arm], "probe")
        assert {look["step"] for look in looks if look["phase"] == "rollout"} == set(range(1, 22))
        assert {look["step"] for look in looks if look["phase"] == "validation"} == {0, 5, 10, 15, 20}
        assert all((look["floor"], look["missing"]) == (0.0, "") for look in looks)
        felt = {look["step"] for look in looks if look["phase"] == "rollout" and look["delta"] > 0}
        assert felt == noisy
        assert all(look["delta"] == 0 for look in looks if look["phase"] == "validation")


def test_the_gap_follows_the_noise(run_dirs: dict[str, Path]) -> None:
    gaps = {arm: probability_gaps(run_dir) for arm, run_dir in run_dirs.items()}
    noisy = {event["step"] for event in noise_events(run_dirs["aqn"]) if event["sigma"] > 0 and event["step"] <= 20}
    clean = [gaps["aqn"][step] for step in set(range(1, 21)) - noisy] + list(gaps["baseline"].values())
    assert min(gaps["aqn"][step] for step in noisy) > 20 * max(clean)


def test_both_arms_learn(run_dirs: dict[str, Path]) -> None:
    for run_dir in run_dirs.values():
        values = validations(run_dir)
        assert values[20] > values[0], values
