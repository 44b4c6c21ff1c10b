"""Real TRL with transformers' generation, and with the real vLLM (its CPU build) in its process.

`make engines` makes the environment, which is its own.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.training.conftest import Laptop, metrics
from tests.training.test_eval_post import POST
from tests.training.test_tiny_cpu import noise_events, records, validations

PYTHON = REPOSITORY / ".venv-engines/bin/python"
PATIENCE_S = 900
SHORT = {
    "train.steps": "6",
    "eval.every": "3",
    "arms.aqn.aqn.stages": "3",
    "train.batch_size": "8",
    "train.mini_batch_size": "8",
    "train.micro_batch_size": "32",
    "rollout.log_prob_micro_batch_size": "32",
}

pytestmark = [
    pytest.mark.training,
    pytest.mark.timeout(2 * PATIENCE_S),
    pytest.mark.skipif(not PYTHON.exists(), reason="needs the environment with TRL: make engines"),
]


@pytest.fixture(scope="module", params=["tiny-trl", "tiny-trl-vllm"])
def recipe(request: pytest.FixtureRequest) -> str:
    return str(REPOSITORY / f"recipes/{request.param}.yaml")


@pytest.fixture(scope="module")
def laptop(new_laptop: Callable[[], Laptop], recipe: str) -> Laptop:
    """A home for each recipe: both have arms of the same names."""
    return new_laptop()


@pytest.fixture(scope="module")
def run_dirs(laptop: Laptop, recipe: str) -> dict[str, Path]:
    """Both arms, trained to the end and judged valid without a finding."""
    laptop.rlx("launch", recipe, "--host", "local", "--arm", "all", "--set", f"backend.python={PYTHON}")
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
        assert all((look["floor"], look["missing"], look["cached"]) == (0.0, "", 0) for look in looks)
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
    assert "n = 100 items" in said


def test_the_last_checkpoint_is_evaluated_greedily(new_laptop: Callable[[], Laptop]) -> None:
    """Beside TRL's own validations, which sample; with the rows that transformers answers after the training."""
    laptop = new_laptop()
    post = "{rows: ~/.cache/rlx/tiny-cpu/val.parquet, row_count: 100}"
    settings = {**SHORT, "train.save_every": "6", "eval.post": post, "backend.python": PYTHON}
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    laptop.rlx("launch", str(REPOSITORY / "recipes/tiny-trl-vllm.yaml"), "--host", "local", "--arm", "baseline", *sets)
    laptop.rlx("wait", "baseline", timeout_s=PATIENCE_S)
    (row,) = laptop.status()
    assert (row["state"], row["verdict"]["status"], row["verdict"]["findings"]) == ("finished", "valid", []), row
    latest = Path(row["run_dir"]) / "latest"
    answers = [json.loads(line) for line in (latest / "validation/6.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(answers) == 100
    assert metrics(Path(row["run_dir"]))[6][POST] == pytest.approx(sum(one["acc"] for one in answers) / 100)
    assert (latest / "validation-in-training/6.jsonl").is_file()


def test_each_fault_in_vllm_has_its_id(new_laptop: Callable[[], Laptop]) -> None:
    """A prefix cache that is never emptied, noise that did not stay, noise in a validation of which no record tells.

    On the way TRL weighs its samples, as the recipe asks here.
    """
    faults = Path(__file__).with_name("sabotage") / "trl_vllm_with_faults.py"
    weights = {"algorithm.correction.weights": "token"}
    settings = {**SHORT, **weights, "backend.python": PYTHON, "reward.path": faults}
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    laptop = new_laptop()
    laptop.rlx("launch", str(REPOSITORY / "recipes/tiny-trl-vllm.yaml"), "--host", "local", "--arm", "aqn", *sets)
    laptop.rlx("wait", "aqn", code=14, timeout_s=PATIENCE_S)
    (row,) = laptop.status()
    assert row["state"] == "finished" and row["verdict"]["status"] != "valid", row
    findings = {finding["id"]: finding["message"] for finding in row["verdict"]["findings"]}
    assert findings.keys() == {"RLX680", "RLX684", "RLX688", "RLX690"}, findings
    assert "step 5 " in findings["RLX680"] and "step 3 " in findings["RLX688"]
    assert re.search(r"step 6\b", findings["RLX684"])
    assert "32 tokens" in findings["RLX690"]
    steps = metrics(Path(row["run_dir"]))
    assert 1 < max(steps[step]["sampling/importance_sampling_ratio/max"] for step in range(1, 7)) <= 2
