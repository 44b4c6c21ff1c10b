"""An arm without noise that is watched for it: the same records and looks as with noise, and no weight is touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from rlx_aqn import Injector
from rlx_aqn_settings import InjectionSettings

from tests.payload.models import dense, moe, moved, weights

WATCH = {"sigma_start": 0.0, "sigma_end": 0.0, "schedule": "constant", "stages": 3, "total_steps": 6, "seed": 1}


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLX_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("RLX_ATTEMPT_DIR", str(tmp_path / "attempts/1"))
    (tmp_path / "payload").mkdir()
    return tmp_path


def watcher(run_dir: Path, tp_size: int = 1, **settings: object) -> Injector:
    (run_dir / "payload/aqn.json").write_text(json.dumps({**WATCH, **settings}), encoding="utf-8")
    injector = Injector.from_run_directory(tp_size)
    assert injector is not None
    return injector


def lines(run_dir: Path) -> list[dict[str, object]]:
    (file,) = (run_dir / "attempts/1/events").glob("*.jsonl")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("kinds", [["rmsnorm"], ["rmsnorm", "linear"]])
def test_no_weight_is_written_to(run_dir: Path, kinds: list[str]) -> None:
    model, watch = moe(), watcher(run_dir, layer_types=kinds)
    clean, writes = weights(model), {name: weight._version for name, weight in model.named_parameters()}
    state = torch.get_rng_state()
    for step in range(8):
        assert watch.restore() == 0
        watch.apply(model, step + 1)
        watch.apply(model, step, phase="validation")
        watch.apply(model, step + 1)
    assert not moved(model, clean)
    assert {name: weight._version for name, weight in model.named_parameters()} == writes, "not even with equal values"
    assert torch.equal(torch.get_rng_state(), state)


def test_it_says_which_layers_and_what_they_are(run_dir: Path) -> None:
    model, watch = dense(), watcher(run_dir)
    for step in (1, 2):
        watch.restore()
        watch.apply(model, step)
        torch.nn.init.constant_(model.model.norm.weight, 1.0 + step)
    told, first, second = lines(run_dir)
    assert (told["kind"], told["sigma_start"], told["elements"]) == ("settings", 0.0, 5 * 16)
    for line in (first, second):
        assert (line["sigma"], line["layers"], line["changed"], line["restored"]) == (0.0, 0, 0, 0)
        assert line["digest_clean"] == line["digest_after"] != ""
    assert second["digest_before"] not in ("", first["digest_after"]), "somebody wrote to a weight in between"


def test_patterns_of_another_arm_that_match_nothing_end_no_run(run_dir: Path) -> None:
    watcher(run_dir, targets=["no_such_layer"], exclude=["nor_this"]).apply(dense(), 1)
    told, line = lines(run_dir)
    assert told["layers"] == [] and line["digest_after"] == "", "the verdict says that nothing was watched"


def test_of_a_split_model_only_what_all_ranks_hold_alike(run_dir: Path) -> None:
    watcher(run_dir, tp_size=2, layer_types=["rmsnorm", "linear"]).apply(dense(), 1)
    told, _ = lines(run_dir)
    assert len(told["layers"]) == 5 and all("norm" in name for name in told["layers"])  # type: ignore[arg-type,union-attr]


@pytest.mark.parametrize("schedule", ["geometric", "linear", "constant"])
def test_no_step_has_noise(schedule: str) -> None:
    settings = InjectionSettings(0.0, 0.05, stages=3, total_steps=6, schedule=schedule)
    assert settings.only_watches and not any(settings.sigma(step) for step in range(8))
    assert not InjectionSettings(0.05, 0.05, stages=3, total_steps=6).only_watches
