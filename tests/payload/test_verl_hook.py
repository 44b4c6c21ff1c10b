"""The noise in stock verl: its own classes from the wheels, with a stand-in engine below the weight loader.

Real, of each version: the source of every hook point, and from 0.7.1 on the classes CheckpointEngineManager and (its
`_validate` up to the first batch) RayPPOTrainer, imported with the hook as a run imports it. vLLM's worker extension
cannot be imported without vLLM: its two methods are taken from the wheel's source. Of 0.6.1, which needs an older
transformers, both hooked methods are.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from rlx_aqn_settings import InjectionSettings
from rlx_verl_hook_points import SYNC, check_points

from rlx.resources import payload_folder
from tests.wheels import DEVELOPMENT, verl_folder

RELEASED = ("0.6.1", "0.7.1", "0.8.0", "0.9.1")
VERSIONS = (*RELEASED, DEVELOPMENT)
LATER = RELEASED[1:]
SETTINGS = {"sigma_start": 0.05, "sigma_end": 0.0005, "stages": 3, "total_steps": 6, "seed": 1}
WATCH = {**SETTINGS, "sigma_start": 0.0, "sigma_end": 0.0, "schedule": "constant"}


@functools.cache
def points_of(version: str) -> tuple[Any, ...]:
    return tuple(check_points(verl_folder(version)))


def copy_of(version: str, folder: Path) -> Path:
    """The hooked files alone, in a verl of their own."""
    package = verl_folder(version)
    for point in points_of(version):
        name = f"{point.module.replace('.', '/')}.py"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(package.parent / name, folder / name)
    return folder / "verl"


class TestPoints:
    @pytest.mark.parametrize("version", VERSIONS)
    def test_are_there_in_the_wheel(self, version: str) -> None:
        roles = {point.role for point in check_points(verl_folder(version))}
        assert roles >= ({"loop", "rollout"} if version == "0.6.1" else {"worker", "server", "manager", "trainer"})

    @pytest.mark.parametrize("version", VERSIONS)
    def test_a_class_a_method_a_signature_or_a_call_that_changed_is_told(self, version: str, tmp_path: Path) -> None:
        for number, point in enumerate(points_of(version)):
            for before, after, words in (
                (f"class {point.owner}", f"class New{point.owner}", f"{point.owner} is missing"),
                (f"def {point.method}(", f"def new_{point.method}(", f"{point.method} is missing"),
                (f"def {point.method}(self", f"def {point.method}(self, new", f"{point.method} takes self, new"),
            ):
                folder = tmp_path / f"{number}-{words[-12:]}".replace(" ", "")
                changed = copy_of(version, folder)
                file = folder / f"{point.module.replace('.', '/')}.py"
                text = file.read_text(encoding="utf-8")
                multi_line = text.replace(f"def {point.method}(\n        self,", f"def {point.method}(self,")
                file.write_text(multi_line.replace(before, after), encoding="utf-8")
                if len(point.parameters) == 1 and "new" in words.split():
                    check_points(changed)  # nothing is asked of what follows self
                    continue
                with pytest.raises(ValueError, match=rf"^RLX641 .*{words}.*\(fix: use verl"):
                    check_points(changed)

    def test_a_trainer_that_no_longer_says_its_step_is_told(self, tmp_path: Path) -> None:
        changed = copy_of("0.9.1", tmp_path)
        file = tmp_path / "verl/trainer/ppo/ray_trainer.py"
        file.write_text(
            file.read_text(encoding="utf-8").replace("update_weights(self.global_steps)", "update_weights()"),
            encoding="utf-8",
        )
        with pytest.raises(ValueError, match=r"RLX641 .*RayPPOTrainer"):
            check_points(changed)

    def test_what_cannot_be_read_is_told(self, tmp_path: Path) -> None:
        changed = copy_of("0.9.1", tmp_path)
        (tmp_path / f"{SYNC[0].module.replace('.', '/')}.py").write_text("class (", encoding="utf-8")
        with pytest.raises(ValueError, match=r"RLX641 .*utils"):
            check_points(changed)

    def test_an_arm_without_noise_trains_on_and_goes_unwatched(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        import rlx_verl_hook

        changed = copy_of("0.9.1", tmp_path)
        file = tmp_path / "verl/trainer/ppo/ray_trainer.py"
        file.write_text(
            file.read_text(encoding="utf-8").replace("update_weights(self.global_steps)", "update_weights()"),
            encoding="utf-8",
        )
        told = tmp_path / "aqn.json"
        told.write_text(json.dumps(WATCH), encoding="utf-8")
        finders = list(sys.meta_path)
        rlx_verl_hook.install(changed, InjectionSettings.read(told))
        assert re.search(r"^\[rlx\] .*RLX641", capsys.readouterr().out, re.M)
        assert sys.meta_path == finders
        told.write_text(json.dumps(SETTINGS), encoding="utf-8")
        with pytest.raises(ValueError, match="RLX641"):
            rlx_verl_hook.install(changed, InjectionSettings.read(told))


def driven(version: str, scenarios: str, run_dir: Path, code: int = 0, package: Path | None = None, **told: Any) -> str:
    """Run drive_hook.py as a process of a run: verl imports the hook by itself. Importing verl takes its time."""
    (run_dir / "payload").mkdir(parents=True)
    (run_dir / "payload/aqn.json").write_text(json.dumps({**SETTINGS, **told}), encoding="utf-8")
    path = [str(payload_folder()), str(payload_folder("verl")), str((package or verl_folder(version)).parent)]
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(path), "VERL_USE_EXTERNAL_MODULES": "rlx_verl_hook", "RANK": "0",
        "RLX_RUN_DIR": str(run_dir), "VERL_USE_EXTERNAL_PLUGINS": "none",
    }  # fmt: skip
    driver = str(Path(__file__).with_name("drive_hook.py"))
    command = [sys.executable, "-W", "ignore", driver, *scenarios.split()]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=500, encoding="utf-8"
    )
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def noise_lines(folder: Path) -> list[dict[str, Any]]:
    (file,) = (folder / "events").glob("aqn-*.jsonl")
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["kind"] == "noise"]


def noise_events(folder: Path) -> list[tuple[str, int, bool]]:
    return [(line["phase"], line["step"], line["sigma"] > 0) for line in noise_lines(folder)]


@pytest.mark.parametrize("version", LATER)
def test_steps_with_validations_and_trainers_that_do_not_tell(version: str, tmp_path: Path) -> None:
    """Stage 1 of 3 is free of noise: steps 1 and 2. The driver holds the weights against what they must be."""
    output = driven(version, "full lora loop dapo untold", tmp_path)
    assert output.count("all as it should be") == 4
    # However often a step generates, the DAPO recipe's trainer syncs once, and after the step.
    assert noise_events(tmp_path / "dapo") == [("rollout", step, step >= 3) for step in range(1, 5)]
    for kind in ("full", "lora"):
        assert noise_events(tmp_path / kind) == [
            ("rollout", 1, False), ("validation", 0, False), ("validation", 0, False), ("rollout", 1, False),
            ("rollout", 2, False),
            ("rollout", 3, True), ("validation", 2, False), ("validation", 2, False), ("rollout", 3, True),
            ("rollout", 4, True), ("validation", 3, False),
        ]  # fmt: skip
        lines = noise_lines(tmp_path / kind)
        assert {tuple(line["process"].values()) for line in lines} == {(0, 1, 1, 0)}
        assert [line["synced"] for line in lines] == [
            True, False, True, False, True, True, False, True, False, True, False,
        ]  # fmt: skip
        found, left = [line["digest_before"] for line in lines], [line["digest_after"] for line in lines]
        assert found == ["", *left[:-1]], "what a sync finds is what was left"
        assert [line["digest_after"] != line["digest_clean"] for line in lines] == [line["sigma"] > 0 for line in lines]
        assert lines[5]["digest_clean"] == lines[6]["digest_after"], "a validation has what the sync brought"
    refusals = sorted(set(re.findall(r"RLX641 aqn: [^\n]*", output)))
    assert len(refusals) == 3 and any("nccl" in refusal for refusal in refusals)


@pytest.mark.parametrize(("version", "scenarios"), [("0.9.1", "full lora"), ("0.6.1", "061-full")])
def test_an_arm_without_noise_is_looked_at_as_one_with_it(version: str, scenarios: str, tmp_path: Path) -> None:
    """The driver holds the weights against the trainer's, bit by bit, at each step."""
    output = driven(version, scenarios, tmp_path, **WATCH)
    assert output.count("all as it should be") == len(scenarios.split())
    for kind in scenarios.split():
        lines = noise_lines(tmp_path / kind)
        assert len(lines) == (5 if version == "0.6.1" else 11)
        assert not any(line["sigma"] or line["changed"] or line["restored"] for line in lines)
        assert all(line["digest_clean"] == line["digest_after"] != "" for line in lines)


def test_0_6_1_before_every_generation(tmp_path: Path) -> None:
    assert driven("0.6.1", "061-full 061-lora", tmp_path).count("all as it should be") == 2
    for kind in ("061-full", "061-lora"):
        assert noise_events(tmp_path / kind) == [
            ("validation", 0, False), ("rollout", 1, False), ("rollout", 3, True), ("validation", 3, False),
            ("rollout", 4, True),
        ]  # fmt: skip
        assert all(line["synced"] and not line["digest_before"] for line in noise_lines(tmp_path / kind))


def test_a_renamed_class_ends_the_run_at_import(tmp_path: Path) -> None:
    package = tmp_path / "copy/verl"
    shutil.copytree(verl_folder("0.9.1"), package, ignore=shutil.ignore_patterns("__pycache__"))
    file = package / "checkpoint_engine/base.py"
    file.write_text(
        file.read_text(encoding="utf-8").replace("class CheckpointEngineManager", "class CheckpointManager"),
        encoding="utf-8",
    )
    output = driven("0.9.1", "full", tmp_path, code=1, package=package)
    assert output.count("RLX641 aqn: ") == 1 and "CheckpointEngineManager" in output
    assert not (tmp_path / "full/events").exists()
