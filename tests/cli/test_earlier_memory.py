"""`rlx plan` says what earlier runs of the same kind took of their devices, from what is on this machine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rlx.cli.frame.app import command_line
from tests.conftest import CASES
from tests.recorded import place_runs

RECIPE = str(CASES / "memory/gspo-qwen3-8b-fsdp2/recipe.yaml")
LOGGED = '"actor/perf/max_memory_allocated_gb":0.0'


def plan(*words: str) -> str:
    done = CliRunner().invoke(command_line(["plan"]), ["plan", RECIPE, *words])
    assert done.exit_code in (0, 2), done.output
    return done.stdout


def answer(*words: str) -> dict[str, Any]:
    return dict(json.loads(plan("--json", *words))["memory"][0])


@pytest.fixture
def taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Recorded runs as if they had been of the recipe, on NPUs: two took 20.5 and 20.9, the third logged nothing."""
    monkeypatch.setenv("HOME", str(tmp_path))
    runs = place_runs(CASES / "six-runs")[:3]
    recipe = json.loads(plan("--json"))["plans"][0]["recipe"]
    for run, size in zip(runs, ("20.5", "20.9", "0.0"), strict=True):
        manifest = run / "manifest.json"
        written = json.loads(manifest.read_text(encoding="utf-8"))
        written["plan"] |= {
            "recipe": {**recipe, "name": "earlier", "seed": written["plan"]["seed"]},
            "device_kind": "npu",
        }
        manifest.write_text(json.dumps(written), encoding="utf-8")
        for log in (run / "attempts/1/metrics.jsonl", run / "attempts/1/log"):
            log.write_text(
                re.sub(r"(max_memory_allocated_gb\"?:)0\.0", rf"\g<1>{size}", log.read_text(encoding="utf-8")),
                encoding="utf-8",
            )
    return runs


@pytest.mark.usefixtures("taken")
def test_what_earlier_runs_took_stands_beside_the_estimate_and_changes_nothing() -> None:
    (line,) = (line for line in plan("-v").splitlines() if "20.5" in line)
    assert re.search(r"\b2\b.*\(tiny-cpu \w+\).*20\.5.*20\.9 .*19\.8–30\.3", line)
    told = answer()
    assert sorted(run["allocated_gib"] for run in told["earlier_runs"]) == [20.5, 20.9]
    assert told["allocated_gib"] == [19.77, 30.27]


def test_runs_of_another_kind_say_nothing(taken: list[Path]) -> None:
    assert len(answer("--set", "train.lr=2e-6", "--seed", "7")["earlier_runs"]) == 2
    for other in ("train.mini_batch_size=8", "rollout.memory_fraction=0.6", "layout.devices_per_node=4"):
        assert answer("--set", other)["earlier_runs"] == []
    log = taken[0] / "attempts/1/metrics.jsonl"
    log.write_text(log.read_text(encoding="utf-8").replace('allocated_gb":20.5', 'allocated_gb":NaN'), encoding="utf-8")
    assert [run["allocated_gib"] for run in answer()["earlier_runs"]] == [20.9]
