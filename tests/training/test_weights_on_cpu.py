"""Real trainings with records of their weights: sound ones, and ones that plug-ins of the engine itself break."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.training.conftest import Laptop

PATIENCE_S = 1200
SABOTAGE = Path(__file__).with_name("sabotage")
TRL = REPOSITORY / ".venv-engines/bin/python"
STEPS = 8
_ROLLOUT = "actor_rollout_ref.rollout"
SETTINGS = {
    "train.steps": str(STEPS),
    "eval.every": "4",
    "train.batch_size": "8",
    "train.mini_batch_size": "8",
    "train.micro_batch_size": "32",
    "rollout.log_prob_micro_batch_size": "32",
    "arms.aqn.aqn.stages": "3",
}

pytestmark = pytest.mark.training


def trained(laptop: Laptop, settings: dict[str, str], recipe: str = "tiny-cpu", code: int = 0) -> dict[str, Any]:
    """What `rlx status` says of the run once it has come to its end."""
    sets = [word for key, value in (SETTINGS | settings).items() for word in ("--set", f"{key}={value}")]
    file = str(REPOSITORY / f"recipes/{recipe}.yaml")
    (run, *_) = laptop.rlx("launch", file, "--host", "local", "--arm", "baseline", *sets).stdout.split()
    laptop.rlx("wait", run, code=code, timeout_s=PATIENCE_S)
    (row,) = laptop.status(run)
    assert row["state"] == "finished", row
    return row


def plugged(plugin: str) -> dict[str, str]:
    return {"env.PYTHONPATH": str(SABOTAGE), "overrides.actor_rollout_ref.model.external_lib": plugin}


def ids(row: dict[str, Any]) -> list[str]:
    return [finding["id"] for finding in row["verdict"]["findings"]]


def records(row: dict[str, Any], role: str) -> list[dict[str, Any]]:
    files = sorted(Path(row["run_dir"]).glob("latest/events/weights-*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line.get("role") == role]


def check_whole(row: dict[str, Any]) -> None:
    """Both ends have a line for each sync, all differ, and what one sends the other receives."""
    assert (row["verdict"]["status"], ids(row)) == ("valid", []), row
    told, *trainer = records(row, "trained")
    same, *engine = records(row, "served")
    assert [line["step"] for line in trainer] == [line["step"] for line in engine] == [*range(STEPS + 1)]
    assert [line["moving"] for line in trainer] == [0, *[1] * STEPS]
    assert len({str(line["digests"]) for line in engine}) == STEPS + 1
    assert told["names"] == same["names"] and told["dtypes"] == same["dtypes"]
    assert [line["digests"] for line in trainer] == [line["digests"] for line in engine]
    assert sorted(line["seconds"] for line in [*trainer, *engine])[STEPS] < 0.005


def test_a_sound_training_of_verl(new_laptop: Callable[[], Laptop]) -> None:
    check_whole(trained(new_laptop(), {}))


def test_an_adapter_moves_and_arrives_merged(new_laptop: Callable[[], Laptop]) -> None:
    row = trained(new_laptop(), {"model.lora": "{rank: 4, alpha: 8}"})
    assert (row["verdict"]["status"], ids(row)) == ("valid", []), row
    told, *trainer = records(row, "trained")
    assert told["lora_rank"] == 4 and told["trainable"] < told["parameters"]
    assert all(".lora_" in name for name in told["names"])
    assert len({str(line["digests"]) for line in trainer}) == STEPS + 1
    assert len({str(line["digests"]) for line in records(row, "served")[1:]}) == STEPS + 1


def test_a_sync_that_sends_nothing(new_laptop: Callable[[], Laptop]) -> None:
    row = trained(new_laptop(), plugged("sync_that_sends_nothing"), code=14)
    assert (row["verdict"]["status"], ids(row)) == ("invalid", ["RLX792"]), row


def test_an_optimizer_of_nothing(new_laptop: Callable[[], Laptop]) -> None:
    row = trained(new_laptop(), plugged("optimizer_of_nothing"), code=14)
    assert (row["verdict"]["status"], ids(row)) == ("invalid", ["RLX790"]), row


def test_a_learning_rate_that_is_overwritten(new_laptop: Callable[[], Laptop]) -> None:
    row = trained(new_laptop(), plugged("learning_rate_overwritten"), code=14)
    assert (row["verdict"]["status"], ids(row)) == ("invalid", ["RLX646"]), row


def test_a_learning_rate_that_is_overwritten_behind_its_metric(new_laptop: Callable[[], Laptop]) -> None:
    row = trained(new_laptop(), plugged("learning_rate_overwritten_unlogged"), code=14)
    assert (row["verdict"]["status"], ids(row)) == ("invalid", ["RLX646"]), row


def test_an_adapter_that_is_not_merged(new_laptop: Callable[[], Laptop]) -> None:
    settings = {"model.lora": "{rank: 4, alpha: 8}", "train.lr": "2.0e-3", **plugged("adapter_that_is_not_merged")}
    row = trained(new_laptop(), settings, code=14)
    assert (row["verdict"]["status"], ids(row)) == ("invalid", ["RLX792"]), row


def test_a_grader_that_accepts_empty_answers(new_laptop: Callable[[], Laptop]) -> None:
    """Its function is none that rlx replays, so that the answers warn and exclude nothing."""
    reward = {"reward.path": str(SABOTAGE / "reward_of_empty_answers.py")}
    row = trained(new_laptop(), reward | plugged("answers_that_end_at_once"))
    assert (row["verdict"]["status"], ids(row)) == ("valid", ["RLX781"]), row


@pytest.mark.skipif(not TRL.exists(), reason="needs the environment with vLLM: make engines")
def test_vllm_in_verl_that_receives_nothing(new_laptop: Callable[[], Laptop]) -> None:
    settings = {
        "backend.python": str(TRL),
        "model.path": "~/.cache/rlx/tiny-cpu/model-heads-32",
        "rollout.engine": "vllm",
        "env.PYTHONPATH": str(SABOTAGE),
        f"overrides.+{_ROLLOUT}.engine_kwargs.vllm.worker_cls": "vllm_worker_that_keeps_its_weights.Worker",
    }
    row = trained(new_laptop(), settings, code=14)
    assert (row["verdict"]["status"], ids(row)) == ("invalid", ["RLX792"]), row


@pytest.mark.skipif(not TRL.exists(), reason="needs the environment with TRL: make engines")
def test_a_seed_that_trl_ignores(new_laptop: Callable[[], Laptop]) -> None:
    laptop, reward = new_laptop(), SABOTAGE / "trl_seed_that_is_ignored.py"
    long = {"train.steps": "10", "eval.every": "5"}  # of fewer steps no two runs are called one
    settings = SETTINGS | long | {"backend.python": str(TRL), "reward.path": str(reward)}
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    recipe = str(REPOSITORY / "recipes/tiny-trl.yaml")
    arms = ("--arm", "all", "--seed", "1", "2")
    runs = laptop.rlx("launch", recipe, "--host", "local", *arms, *sets).stdout.split()
    laptop.rlx("wait", *runs, timeout_s=PATIENCE_S)
    document = json.loads(laptop.rlx("compare", "baseline", "aqn", "--json", code=14).stdout)
    (contrast,) = document["contrasts"]
    assert (contrast["test"], contrast["p_value"]) == (None, None), contrast
    errors = [finding["id"] for finding in contrast["findings"] if finding["severity"] == "error"]
    assert errors == ["RLX929"], contrast["findings"]


@pytest.mark.skipif(not TRL.exists(), reason="needs the environment with TRL: make engines")
@pytest.mark.parametrize("recipe", ["tiny-trl", "tiny-trl-vllm"])
def test_a_sound_training_of_trl(recipe: str, new_laptop: Callable[[], Laptop]) -> None:
    row = trained(new_laptop(), {"backend.python": str(TRL)}, recipe)
    assert (row["verdict"]["status"], ids(row)) == ("valid", []), row
    _, *trainer = records(row, "trained")
    _, *engine = records(row, "served")
    assert [line["step"] for line in trainer] == [line["step"] for line in engine] == [*range(STEPS + 1)]
    for own in (trainer, engine):
        assert len({str(line["digests"]) for line in own}) == STEPS + 1


@pytest.mark.skipif(not TRL.exists(), reason="needs the environment with TRL: make engines")
def test_vllm_in_trl_that_receives_nothing(new_laptop: Callable[[], Laptop]) -> None:
    reward = SABOTAGE / "trl_sync_that_sends_nothing.py"
    row = trained(new_laptop(), {"backend.python": str(TRL), "reward.path": str(reward)}, "tiny-trl-vllm", code=14)
    assert (row["verdict"]["status"], ids(row)) == ("invalid", ["RLX792"]), row
