"""Noise in a real training on two FSDP workers, each with a rollout of its own: full weights twice, then LoRA."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import Laptop
from tests.training.test_tiny_cpu import noise_events, probability_gaps, records

PATIENCE_S = 3000

pytestmark = [pytest.mark.training, pytest.mark.timeout(3 * PATIENCE_S)]

STEPS = range(1, 11)
# Ten steps in three stages: 4 clean and 6 noisy ones are the fewest of which both witnesses are sure (1 %).
NOISY = range(5, 11)
SETTINGS = {
    "layout.devices_per_node": "2",
    "train.steps": "10",
    "eval.every": "2",
    "arms.aqn.aqn.stages": "3",
    "train.batch_size": "8",
    "train.mini_batch_size": "8",
    "train.micro_batch_size": "32",
    "rollout.log_prob_micro_batch_size": "32",
}
# verl streams merged adapters in bfloat16: a gap of 5e-4 without noise, which hides the recipe's last sigma of 5e-4.
LORA = {"model.lora": "{rank: 4, alpha: 8}", "arms.aqn.aqn.sigma_end": "0.01"}

Fingerprints = dict[tuple[int, int, str], set[str]]


@pytest.fixture(scope="module")
def runs(new_laptop: Callable[[], Laptop]) -> dict[str, dict[str, Any]]:
    laptop = new_laptop()
    return {
        "full": trained(laptop, 1, SETTINGS),
        "again": trained(laptop, 1, SETTINGS),
        "lora": trained(laptop, 2, {**SETTINGS, **LORA}),
    }


def trained(laptop: Laptop, seed: int, settings: Mapping[str, str]) -> dict[str, Any]:
    """What `rlx status` says of a run that has come to its end."""
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    (run,) = laptop.launch("--arm", "aqn", "--seed", str(seed), *sets)
    laptop.rlx("wait", run, timeout_s=PATIENCE_S)
    (row,) = laptop.status(run)
    return row


@pytest.mark.parametrize("name", ["full", "again", "lora"])
def test_both_witnesses_agree(runs: dict[str, dict[str, Any]], name: str) -> None:
    row = runs[name]
    # No finding at all: neither noise on top of noise (RLX617) nor a gap that stays while sigma falls (RLX618).
    assert (row["state"], row["verdict"]["status"]) == ("finished", "valid"), row["verdict"]
    assert row["verdict"]["findings"] == []
    gaps = probability_gaps(Path(row["run_dir"]))
    assert sorted(gaps) == list(STEPS)
    assert min(gaps[step] for step in NOISY) > max(gaps[step] for step in STEPS if step not in NOISY), gaps


@pytest.mark.parametrize("name", ["full", "again", "lora"])
def test_each_worker_s_rollout_is_noisy_in_training_and_clean_in_validation(
    runs: dict[str, dict[str, Any]], name: str
) -> None:
    events = noise_events(Path(runs[name]["run_dir"]))
    for replica in (0, 1):
        own = [event for event in events if event["replica"] == replica]
        assert {event["step"] for event in own if event["sigma"] > 0} == set(NOISY)
        assert {event["step"] for event in own if event["phase"] == "validation"} == set(range(0, 11, 2))
    assert all(event["sigma"] == 0 and event["changed"] == 0 for event in events if event["phase"] == "validation")
    assert all(event["changed"] > 0 for event in events if event["sigma"] > 0)


@pytest.mark.parametrize("name", ["full", "again", "lora"])
def test_each_engine_felt_exactly_the_noise(runs: dict[str, dict[str, Any]], name: str) -> None:
    run_dir = Path(runs[name]["run_dir"])
    for line in records(run_dir, "probe"):
        is_noisy = line["phase"] == "rollout" and line["step"] in NOISY
        assert not line["missing"] and line["floor"] == 0.0 and (line["delta"] > 0) == is_noisy, line
    clean = {(event["phase"], event["step"]): set[str]() for event in noise_events(run_dir)}
    for event in noise_events(run_dir):
        clean[event["phase"], event["step"]].add(event["digest_clean"])
    assert all(len(digests) == 1 for digests in clean.values()), "both replicas hold the same clean weights"


def test_the_seed_decides_the_noise(runs: dict[str, dict[str, Any]]) -> None:
    """Names, steps and replicas are the same in all three, also with LoRA: its rollout holds merged weights."""
    full, again, lora = (fingerprints(Path(runs[name]["run_dir"])) for name in ("full", "again", "lora"))
    assert full == again
    # After a validation the rollout gets its noise a second time: the same.
    assert set(full) == {(step, replica, "rollout") for step in NOISY for replica in (0, 1)} == set(lora)
    seen = [print_ for prints in (full, lora) for one in prints.values() for print_ in one]
    assert len(seen) == len(set(seen)) == 2 * len(full)


def fingerprints(run_dir: Path) -> Fingerprints:
    found: Fingerprints = {}
    for event in noise_events(run_dir):
        if event["sigma"] > 0:
            found.setdefault((event["step"], event["replica"], event["phase"]), set()).add(event["fingerprint"])
    return found
