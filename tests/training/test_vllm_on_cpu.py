"""Real verl with the real vLLM (its CPU build) under the hooks. `make engines` makes the environment for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.training.conftest import Laptop
from tests.training.test_tiny_cpu import noise_events, probability_gaps, records

PYTHON = REPOSITORY / ".venv-engines/bin/python"
PATIENCE_S = 1800

pytestmark = [
    pytest.mark.training,
    pytest.mark.timeout(2 * PATIENCE_S),
    pytest.mark.skipif(not PYTHON.exists(), reason="needs the environment with vLLM: make engines"),
]

STEPS = range(1, 11)
# Ten steps in three stages: 4 clean and 6 noisy ones are the fewest of which both witnesses are sure (1 %).
NOISY = set(range(5, 11))
VALIDATIONS = {0, 5, 10}
SETTINGS = {
    "model.path": "~/.cache/rlx/tiny-cpu/model-heads-32",
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
TWO_RANKS = {"layout.devices_per_node": "2", "rollout.tp": "2"}
_ROLLOUT = "actor_rollout_ref.rollout"
# Blocks of 32 tokens, of which the rows of the probe fill one: vLLM's own 128 would leave the cache empty.
CACHED = {
    f"overrides.+{_ROLLOUT}.engine_kwargs.vllm.block_size": "32",
    f"overrides.{_ROLLOUT}.enable_prefix_caching": "true",
    f"overrides.{_ROLLOUT}.enable_chunked_prefill": "true",
    f"overrides.{_ROLLOUT}.max_model_len": "64",
    f"overrides.{_ROLLOUT}.max_num_batched_tokens": "64",
    f"overrides.{_ROLLOUT}.max_num_seqs": "32",
}
PLUGGED = {
    "env.PYTHONPATH": str(Path(__file__).with_name("sabotage")),
    "overrides.actor_rollout_ref.model.external_lib": "prefix_cache_that_stays",
    f"overrides.+{_ROLLOUT}.engine_kwargs.vllm.worker_cls": "vllm_worker_with_faults.Worker",
}


@pytest.fixture(scope="module")
def control(new_laptop: Callable[[], Laptop]) -> Path:
    """Full weights on one device."""
    return honest(new_laptop(), "baseline", {})


@pytest.fixture(scope="module")
def two_replicas(new_laptop: Callable[[], Laptop]) -> Path:
    return honest(new_laptop(), "aqn", {"layout.devices_per_node": "2", **CACHED})


@pytest.fixture(scope="module")
def two_ranks_with_lora(new_laptop: Callable[[], Laptop]) -> Path:
    return honest(new_laptop(), "aqn", {**TWO_RANKS, "model.lora": "{rank: 4, alpha: 8}"})


@pytest.fixture(scope="module")
def faults(new_laptop: Callable[[], Laptop]) -> dict[str, Any]:
    """A run on two ranks whose workers and server are broken by plugins."""
    short = {"train.steps": "6", "eval.every": "3"}
    row = trained(new_laptop(), "aqn", {**TWO_RANKS, **CACHED, **short, **PLUGGED})
    assert row["state"] == "finished", row
    return row


def honest(laptop: Laptop, arm: str, settings: Mapping[str, str]) -> Path:
    """The directory of a run that was trained to its end and judged valid without a finding."""
    row = trained(laptop, arm, settings)
    assert (row["state"], row["verdict"]["status"], row["verdict"]["findings"]) == ("finished", "valid", []), row
    return Path(row["run_dir"])


def trained(laptop: Laptop, arm: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """What `rlx status` says of the run, once it has come to its end."""
    every = {**SETTINGS, **settings}
    sets = [word for key, value in every.items() for word in ("--set", f"{key}={value}")]
    (run,) = laptop.launch("--arm", arm, *sets)
    laptop.rlx("wait", run, code=None, timeout_s=PATIENCE_S)
    (row,) = laptop.status(run)
    return row


def felt(run_dir: Path, phase: str) -> set[int]:
    """The steps at which the engine that serves scores otherwise than on clean weights; no look is missing."""
    looks = [look for look in records(run_dir, "probe") if look["phase"] == phase]
    assert {look["step"] for look in looks} == ({*STEPS, 11} if phase == "rollout" else VALIDATIONS)
    assert all((look["floor"], look["missing"]) == (0.0, "") for look in looks), looks
    return {look["step"] for look in looks if look["delta"] > 0}


def test_the_control_looked_at_each_step_and_saw_nothing(control: Path) -> None:
    assert felt(control, "rollout") == felt(control, "validation") == set()
    assert all((event["sigma"], event["changed"]) == (0.0, 0) for event in noise_events(control))


def test_the_gap_follows_the_noise(control: Path, two_replicas: Path) -> None:
    gaps = probability_gaps(two_replicas)
    clean = [gaps[step] for step in STEPS if step not in NOISY] + list(probability_gaps(control).values())
    assert min(gaps[step] for step in NOISY) > 20 * max(clean)


def test_two_replicas_with_a_prefix_cache_and_a_chunked_prefill(two_replicas: Path) -> None:
    """Each replica signs and is probed; both hold the same clean weights and have noise of their own."""
    assert felt(two_replicas, "rollout") == NOISY and felt(two_replicas, "validation") == set()
    assert places(records(two_replicas, "probe")) == places(noise_events(two_replicas)) == {(0, 0), (1, 0)}
    assert all(look["cached"] == 0 for look in records(two_replicas, "probe"))
    noisy = [event for event in noise_events(two_replicas) if event["sigma"] > 0]
    assert len({event["fingerprint"] for event in noisy}) == 2 * len(NOISY)
    alike: dict[tuple[str, int], set[str]] = {}
    for event in noise_events(two_replicas):
        alike.setdefault((event["phase"], event["step"]), set()).add(event["digest_clean"])
    assert all(len(digests) == 1 for digests in alike.values())


def test_two_ranks_hold_equal_noise_below_adapters(two_ranks_with_lora: Path) -> None:
    """The base stays as it is at each sync, so that the clean weights are the same all along."""
    assert felt(two_ranks_with_lora, "rollout") == NOISY and felt(two_ranks_with_lora, "validation") == set()
    events = noise_events(two_ranks_with_lora)
    assert places(events) == {(0, 0), (0, 1)}
    assert len({event["digest_clean"] for event in events}) == 1
    noisy = [event for event in events if event["sigma"] > 0]
    assert {event["step"] for event in noisy} == NOISY
    assert len({event["fingerprint"] for event in noisy}) == len(NOISY), "equal on both ranks, another at each step"
    gaps = probability_gaps(two_ranks_with_lora)
    assert min(gaps[step] for step in NOISY) > 20 * max(gaps[step] for step in STEPS if step not in NOISY)


def places(lines: list[dict[str, Any]]) -> set[tuple[int, int]]:
    """Replica and tensor rank of the processes that wrote them."""
    return {(line["process"]["replica"], line["process"]["rank"]) for line in lines}


def test_each_fault_in_the_real_engine_has_its_id(faults: dict[str, Any]) -> None:
    findings = {finding["id"]: finding["message"] for finding in faults["verdict"]["findings"]}
    assert findings.keys() == {"RLX672", "RLX688", "RLX690"}, findings
    assert "1 of 2 processes" in findings["RLX672"] and "rank 1" in findings["RLX672"]
    assert "step 3 " in findings["RLX688"]
    assert "32 tokens" in findings["RLX690"]
    assert faults["verdict"]["status"] != "valid"


def test_a_rehearsal_gives_the_recipe_s_arguments_to_the_real_engine(new_laptop: Callable[[], Laptop]) -> None:
    noise = "aqn={sigma_start: 0.01, sigma_end: 0.001, stages: 4}"
    sets = ("rollout.tp=2", "model.lora={rank: 4, alpha: 8}", f"overrides.{_ROLLOUT}.max_model_len=2560", noise)
    words = [word for setting in sets for word in ("--set", setting)]
    recipe = str(REPOSITORY / "recipes/qwen2.5-1.5b-gsm8k-npu.yaml")
    done = new_laptop().rlx("rehearse", recipe, "--json", *words, timeout_s=PATIENCE_S)
    answer = json.loads(done.stdout)
    assert answer["passed"] and answer["engine"] == "vllm"
    assert all(check["passed"] for check in answer["checks"]), answer["checks"]
    assert "vllm" not in {one["what"] for one in answer["not_rehearsed"]}
