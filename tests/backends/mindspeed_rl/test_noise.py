"""Noise in MindSpeed-RL: what an arm with it brings, and what a run with a real Ray does with that.

stand_in/cli/train_tiny.py is in the place of MindSpeed-RL. For its own code see test_mindspeed_rl_hook.py.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rlx.evidence import VerdictStatus, judge, read_evidence
from rlx.model import RunState
from tests.backends.mindspeed_rl import log_lines
from tests.backends.mindspeed_rl.conftest import STAND_IN, MakeRecipe, Start, file_of, planned
from tests.backends.mindspeed_rl.test_config import errors

NOISE = {"sigma_start": 0.04, "sigma_end": 0.01, "stages": 3}


def test_noise_is_spread_over_the_iterations(recipe: MakeRecipe) -> None:
    launch = planned(recipe({"train": {"steps": 6}, "aqn": NOISE}))
    noise = launch.expectations.noise
    assert noise is not None and noise.sigmas == (0.0, 0.0, 0.04, 0.04, 0.01, 0.01)
    settings = json.loads(file_of(launch, "payload/aqn.json"))
    assert (settings["total_steps"], settings["sigma_start"], settings["seed"]) == (6, 0.04, launch.seed)
    modules = {file.path for file in launch.files}
    assert {"payload/rlx_aqn.py", "payload/rlx_aqn_hook.py", "payload/rlx_mindspeed_rl_hook.py"} <= modules
    assert not any("verl" in path for path in modules)


def test_stages_in_every_epoch(recipe: MakeRecipe) -> None:
    """100 rows are 3 batches of 32."""
    change = {"train": {"steps": None, "epochs": 2}, "data": {"train_rows": 100}, "aqn": {**NOISE, "per_epoch": True}}
    noise = planned(recipe(change)).expectations.noise
    assert noise is not None and [sigma > 0 for sigma in noise.sigmas] == [False, True, True] * 2
    unknown = {"train": {"steps": 6}, "aqn": {**NOISE, "per_epoch": True}}
    assert "aqn.per_epoch" in errors(recipe, unknown)["RLX015"].message


def test_an_arm_without_noise_brings_nothing_of_it(recipe: MakeRecipe) -> None:
    launch = planned(recipe())
    assert launch.expectations.noise is None
    assert not any("aqn" in file.path or "hook" in file.path for file in launch.files)


NOISY: dict[str, Any] = {
    "backend": {"entrypoint": "cli/train_tiny.py"},
    "train": {"steps": 6},
    "aqn": {"sigma_start": 0.05, "sigma_end": 0.02, "stages": 3},
}


def test_noise_on_the_weights_that_generate(start: Start) -> None:
    """Each rank is an engine of its own here. Stage 1 of 3 is free of noise: iterations 1 and 2."""
    pytest.importorskip("torch")
    run = start(NOISY)
    assert run.end() == 0, run.log
    generated = [line.partition(" generated with ")[2] for line in run.log.splitlines() if " generated with " in line]
    kinds = ("input_layernorm", "post_attention_layernorm")
    norms = [f"layers.{layer}.{kind}.weight" for layer in (0, 1) for kind in kinds]
    noisy = f"other weights than trained: {' '.join([*norms, 'norm.weight'])}"
    assert generated == 4 * ["other weights than trained: none"] + 8 * [noisy]
    evidence = read_evidence([run.folder / "attempts/1"])
    assert sorted((event.step or 0, event.replica, event.sigma) for event in evidence.noise) == [
        (step, rank, sigma) for step, sigma in enumerate((0.0, 0.0, 0.05, 0.05, 0.02, 0.02), 1) for rank in (0, 1)
    ]
    verdict = judge(evidence, run.launch.expectations, RunState.FINISHED, arm="main")
    expected = {"RLX678", "RLX679", "RLX724"}
    assert {finding.id for finding in verdict.findings} == expected, "a stand-in's model, nothing felt, no real log"
    assert verdict.status is VerdictStatus.UNVERIFIED, verdict.sentence
    assert run.leaves_nothing(), run.left()


@pytest.fixture
def engine_file(tmp_path: Path) -> Path:
    """Of a checkout of its own."""
    pytest.importorskip("torch")
    shutil.copytree(STAND_IN, tmp_path / "own", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "own/mindspeed_rl/models/rollout/vllm_engine.py"


def test_noise_without_its_place_ends_the_run_before_ray_starts(
    start: Start, tmp_path: Path, engine_file: Path
) -> None:
    engine_file.write_text(
        engine_file.read_text(encoding="utf-8").replace("def sync_model_weights", "def load_model_weights"),
        encoding="utf-8",
    )
    run = start(NOISY, {"backend": {"workdir": str(tmp_path / "own")}})
    assert run.end() == 1
    assert "RLX641 aqn: mindspeed_rl in" in run.log and "Traceback" not in run.log, run.log
    assert log_lines.NO_PLACE_FOR_NOISE in run.log
    assert not list((run.folder / "attempts/1").glob("events/*"))
    assert run.leaves_nothing(), run.left()


def test_a_worker_that_would_train_clean_ends_the_run(start: Start, tmp_path: Path, engine_file: Path) -> None:
    """Its MindSpeed-RL is another one than that which launch.sh looked at, as it may be on another machine."""
    looked_at = '|| echo "rlx: no record of versions and data" >&2\n'
    change = f"sed -i s/sync_model_weights/load_model_weights/ {engine_file}\n"
    away = {"backend": {"workdir": str(tmp_path / "own")}}
    run = start(NOISY, away, edit=lambda text: text.replace(looked_at, looked_at + change))
    assert run.end() != 0
    assert log_lines.NO_PLACE_FOR_NOISE in run.log
    assert " iteration: " not in run.log
    assert run.leaves_nothing(), run.left()
