"""The noise in MindSpeed-RL: on the stand-in's classes always, and on its own where RLX_MINDSPEED_RL names a checkout.

With Ray: tests/backends/mindspeed_rl/test_launch.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rlx_aqn_hook import HookPoint
from rlx_mindspeed_rl_hook_points import check_points

from rlx.resources import payload_folder
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.slow

pytest.importorskip("torch")


STAND_IN = REPOSITORY / "tests/backends/mindspeed_rl/stand_in"
CHECKOUT = os.environ.get("RLX_MINDSPEED_RL", "")
TREES = [STAND_IN, *([Path(CHECKOUT)] if CHECKOUT else [])]
SETTINGS = {"sigma_start": 0.05, "sigma_end": 0.02, "stages": 3, "total_steps": 6, "seed": 1}
ROLLOUTS = [("rollout", step, 3 <= step <= 6) for step in range(1, 8)]


def copy_of(tree: Path, points: tuple[HookPoint, ...], folder: Path) -> Path:
    """The hooked files alone, in a package of their own."""
    for point in points:
        name = f"{point.module.replace('.', '/')}.py"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tree / name, folder / name)
    return folder / "mindspeed_rl"


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
class TestPoints:
    def test_are_there(self, tree: Path) -> None:
        assert {point.role for point in check_points(tree / "mindspeed_rl")} >= {"worker", "engine", "sync", "log"}

    def test_a_class_a_method_a_signature_or_a_call_that_changed_is_told(self, tree: Path, tmp_path: Path) -> None:
        points = check_points(tree / "mindspeed_rl")
        for number, point in enumerate(points):
            method = f"def {point.method}("
            for kind, before, after, words in (
                ("class", f"class {point.owner}(", f"class New{point.owner}(", f"{point.owner} is missing"),
                ("class", f"class {point.owner}:", f"class New{point.owner}:", f"{point.owner} is missing"),
                ("method", method, f"def new_{point.method}(", f"{point.method} is missing"),
                ("first", f"{method}self", f"{method}new, self", f"{point.method} takes new, self"),
                ("text", point.says, "pass", f"{point.owner} no longer says"),
            ):
                changed = copy_of(tree, points, tmp_path / f"{number}-{kind}")
                file = changed.parent / f"{point.module.replace('.', '/')}.py"
                text = file.read_text(encoding="utf-8")
                if before not in text:
                    continue
                file.write_text(text.replace(before, after), encoding="utf-8")
                with pytest.raises(ValueError, match=r"^RLX641 .*\(fix: ") as refused:
                    check_points(changed)
                assert words in str(refused.value) or kind == "text", refused.value

    def test_what_cannot_be_read_is_told(self, tree: Path, tmp_path: Path) -> None:
        points = check_points(tree / "mindspeed_rl")
        changed = copy_of(tree, points, tmp_path)
        (changed / "workers/actor_hybrid_worker.py").write_text("class (", encoding="utf-8")
        with pytest.raises(ValueError, match=r"RLX641 .*actor_hybrid_worker"):
            check_points(changed)


def driven(driver: str, arguments: list[str], run_dir: Path, path: list[Path], code: int = 0) -> str:
    (run_dir / "payload").mkdir(parents=True)
    (run_dir / "payload/aqn.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [payload_folder(), payload_folder("mindspeed_rl"), *path])),
        "RLX_RUN_DIR": str(run_dir),
        "RLX_ATTEMPT_DIR": str(run_dir / "attempt"),
    }
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name(driver)), *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=500, encoding="utf-8"
    )
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def events(folder: Path) -> list[dict[str, Any]]:
    (file,) = (folder / "events").glob("aqn-*.jsonl")
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["kind"] == "noise"]


def test_from_sync_to_offload(tmp_path: Path) -> None:
    """Stage 1 of 3 is free of noise: iterations 1 and 2. The driver holds the weights against what they must be."""
    scenarios = ["iterations", "several-syncs", "partial-sync", "latent", "engine-alone", "replicas"]
    output = driven("drive_mindspeed_rl_hook.py", scenarios, tmp_path, [STAND_IN])
    assert output.count("all as it should be") == len(scenarios), output
    noise = events(tmp_path / "iterations")
    assert [(event["phase"], event["step"], event["sigma"] > 0) for event in noise] == ROLLOUTS
    assert {event["layers"] for event in noise} == {0, 5}
    # The weights are given away at the offload; until then the noise stood.
    assert [event["digest_before"] for event in noise] == ["", *(event["digest_after"] for event in noise[:-1])]
    again = events(tmp_path / "several-syncs")
    assert {event["step"] for event in again} == {4} and len({event["fingerprint"] for event in again}) == 1
    assert [tuple(event["process"].values()) for event in events(tmp_path / "replicas")] == [
        (1, 0, 0, 0), (1, 0, 1, 0),
    ]  # fmt: skip
    assert len({event["fingerprint"] for event in events(tmp_path / "replicas")}) == 1


def test_a_process_without_mindspeed_rl_is_told(tmp_path: Path) -> None:
    output = driven("drive_mindspeed_rl_hook.py", ["iterations"], tmp_path, [], code=1)
    assert re.search(r"RLX641 aqn: .*mindspeed_rl.* \(fix: backend\.workdir", output)


@pytest.mark.skipif(not CHECKOUT, reason="RLX_MINDSPEED_RL names no checkout of MindSpeed-RL")
def test_its_own_classes_from_sync_to_offload(tmp_path: Path) -> None:
    output = driven("drive_in_mindspeed_rl.py", [CHECKOUT], tmp_path, [Path(CHECKOUT)])
    assert output.count("all as it should be") == 1
    noise = events(tmp_path / "attempt")
    assert [(event["phase"], event["step"], event["sigma"] > 0) for event in noise] == ROLLOUTS
    assert {event["layers"] for event in noise} == {0, 5}
