"""Whole launches as folders: a recipe, the launch.sh and the expectations that it leads to.

After a deliberate change: UPDATE_CASES=1 pytest tests/backends/test_render_cases.py, and read the difference.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from rlx.backends.verl.backend import plan
from rlx.errors import UsageError
from rlx.evidence.checks.recipe_settings import setting_mismatches
from rlx.model import LaunchPlan, Site, from_jsonable, to_jsonable
from rlx.recipe import load_recipe
from rlx.yaml_reader.hydra import read_hydra, read_words
from tests.backends.conftest import config_tree, resolved
from tests.conftest import CASES

FOLDERS = sorted((CASES / "render").iterdir())
SITE = Site(path_prefix=("/opt/my python/bin", "/opt/tools"))
VERSIONS = {"0.9.0": "0.9.1"}


def planned(folder: Path) -> LaunchPlan:
    return plan(load_recipe(folder / "recipe.yaml").resolve("main"), SITE)


def launch_script(launch: LaunchPlan) -> str:
    return next(file.content for file in launch.files if file.path == "launch.sh")


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest) -> Path:
    return request.param  # type: ignore[no-any-return]


def test_launch_is_as_recorded(folder: Path) -> None:
    launch = planned(folder)
    expectations = json.dumps(to_jsonable(launch.expectations), indent=1) + "\n"
    if os.environ.get("UPDATE_CASES"):
        (folder / "launch.sh").write_text(launch_script(launch), encoding="utf-8")
        (folder / "expectations.json").write_text(expectations, encoding="utf-8")
    assert launch_script(launch) == (folder / "launch.sh").read_text(encoding="utf-8")
    assert expectations == (folder / "expectations.json").read_text(encoding="utf-8")


def test_plans_are_deterministic_and_survive_json(folder: Path) -> None:
    launch = planned(folder)
    assert planned(folder) == launch
    assert from_jsonable(LaunchPlan, json.loads(json.dumps(to_jsonable(launch)))) == launch


@pytest.mark.parametrize("checker", [["bash", "-n"], ["shellcheck"]], ids=["bash", "shellcheck"])
def test_launch_script_is_clean(folder: Path, checker: list[str]) -> None:
    tools = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [*checker, folder / "launch.sh"], capture_output=True, text=True, check=False, env=tools, encoding="utf-8"
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_hydra_gets_what_the_shell_hands_over(folder: Path, tmp_path: Path) -> None:
    """Runs launch.sh itself; a program in the place of Python writes down what it is started with."""
    seen = executed(planned(folder), tmp_path)
    recipe = load_recipe(folder / "recipe.yaml").resolve("main").recipe
    module, *rest = seen["argv"][1:]
    assert (seen["argv"][0], module) == ("-u", "-m")
    name, overrides = rest[0], rest[1:]
    assert name == "verl.trainer.main_ppo"
    config_name = "ppo_trainer"
    if overrides[0].startswith("--config-name="):
        config_name = overrides.pop(0).partition("=")[2]
    version = VERSIONS.get(recipe.backend.version, recipe.backend.version)
    with initialize_config_dir(str(config_tree(version)), version_base=None):
        config = compose(config_name, overrides)
    assert list(setting_mismatches(read_words(rest), read_hydra(OmegaConf.to_yaml(config)))) == []
    assert config.data.prompt_key == recipe.data.prompt_key
    assert OmegaConf.to_container(config)["data"]["train_files"] in (  # type: ignore[call-overload,index]
        recipe.data.train,
        recipe.data.train.replace("~", "${oc.env:HOME}", 1),
    )
    for variable, value in recipe.env.items():
        if variable not in ("PYTHONPATH", "VERL_USE_EXTERNAL_MODULES"):  # rlx has something to add
            assert seen["env"][variable] == value
    assert not list(tmp_path.rglob("pwned"))


def executed(launch: LaunchPlan, folder: Path) -> dict[str, Any]:
    """What launch.sh starts to train: its arguments and environment."""
    run, attempt, home = folder / "run dir", folder / "attempt", folder / "home"
    for place in (run / "payload", attempt, home / "my verl", home / "venv/bin"):
        place.mkdir(parents=True)
    recorder = home / "venv/bin/python"
    recorder.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "if sys.argv[1].endswith('provenance.py'): sys.exit(1)\n"
        "if any('rlx_eval' in word for word in sys.argv): sys.exit()\n"
        "seen = {'argv': sys.argv[1:], 'env': dict(os.environ), 'cwd': os.getcwd()}\n"
        f"open({str(folder / 'seen.json')!r}, 'w').write(json.dumps(seen))\n",
        encoding="utf-8",
    )
    recorder.chmod(0o700)
    (home / "venv/bin/python3").symlink_to("python")
    script = launch_script(launch).replace("cd /verl\n", 'cd "$RLX_RUN_DIR"\n')
    (run / "launch.sh").write_text(script, encoding="utf-8")
    environment = {
        "HOME": str(home),
        "PATH": f"{home / 'venv/bin'}:/usr/bin:/bin",
        "RLX_RUN": "run-1",
        "RLX_RUN_DIR": str(run),
        "RLX_ATTEMPT_DIR": str(attempt),
        "RLX_RAY_TMP": str(folder / "ray"),
        "RLX_DEVICES": "2,3",
    }
    done = subprocess.run(
        ["bash", run / "launch.sh"], env=environment, capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("rlx: "), "a note of the record alone"
    seen: dict[str, Any] = json.loads((folder / "seen.json").read_text(encoding="utf-8"))
    return seen


@pytest.mark.parametrize(
    ("device", "variable"), [("npu", "ASCEND_RT_VISIBLE_DEVICES"), ("cuda", "CUDA_VISIBLE_DEVICES"), ("cpu", None)]
)
def test_the_leased_devices_are_the_visible_ones(device: str, variable: str | None, tmp_path: Path) -> None:
    folder = next(folder for folder in FOLDERS if folder.name.startswith(device))
    environment = executed(planned(folder), tmp_path)["env"]
    assert {name: value for name, value in environment.items() if name.endswith("VISIBLE_DEVICES")} == (
        {variable: "2,3"} if variable else {}
    )


def test_the_payload_is_found_before_anything_of_the_recipe(tmp_path: Path) -> None:
    seen = executed(planned(CASES / "render/cuda-lora-reward-file"), tmp_path)
    assert seen["env"]["PYTHONPATH"] == f"{tmp_path}/run dir/payload:/opt/my lib"
    assert seen["env"]["PATH"].startswith("/opt/my python/bin:/opt/tools:")
    assert seen["cwd"] == str(tmp_path / "home/my verl")


AQN_MODULES = {
    *("rlx_aqn.py", "rlx_aqn_digest.py", "rlx_aqn_events.py", "rlx_aqn_hook.py", "rlx_aqn_layers.py"),
    *("rlx_aqn_noise.py", "rlx_aqn_probe.py", "rlx_aqn_settings.py"),
}
HOOKS = {
    *("rlx_verl_hook.py", "rlx_verl_hook_061.py", "rlx_verl_hook_points.py", "rlx_verl_hook_probe.py"),
    "rlx_verl_hook_sync.py",
}
WEIGHTS = {"rlx_weights.py", "rlx_verl_weights.py"}


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("npu-aqn-builtin", {"provenance.py", "provenance_weights.py"}),
        ("npu-aqn-payload", {"provenance.py", "provenance_weights.py", "aqn.json"} | AQN_MODULES | HOOKS | WEIGHTS),
        (
            "cuda-lora-reward-file",
            {"provenance.py", "provenance_weights.py", "score.py", "rlx_verl_track.py"} | AQN_MODULES,
        ),
        (
            "cpu-aqn-payload",
            {
                "provenance.py",
                "provenance_weights.py",
                "score.py",
                "aqn.json",
                "rlx_verl_cpu.py",
                "rlx_verl_cpu_rollout.py",
            }
            | {f"rlx_verl_cpu_{part}.py" for part in ("replay", "sampling", "trainer", "weights")}
            | AQN_MODULES
            | WEIGHTS,
        ),
    ],
)
def test_what_travels(name: str, payload: set[str]) -> None:
    launch = planned(CASES / "render" / name)
    paths = {file.path for file in launch.files}
    assert paths == {"launch.sh", "recipe.yaml"} | {f"payload/{file}" for file in payload}
    assert {file.path for file in launch.files if file.mode & 0o100} == {"launch.sh"}


def test_the_settings_of_the_noise_are_those_of_the_recipe() -> None:
    launch = planned(CASES / "render/npu-aqn-payload")
    settings = json.loads(next(file.content for file in launch.files if file.path == "payload/aqn.json"))
    assert settings == {
        "sigma_start": 0.05, "sigma_end": 0.005, "stages": 5, "total_steps": 116, "schedule": "linear",
        "epoch_steps": 58, "layer_types": ["rmsnorm"], "targets": "auto", "exclude": ["model.norm"],
        "multipliers": {"layers.0.": 0.5}, "seed": 1, "validation_noise": False,
    }  # fmt: skip
    assert launch.env["VERL_USE_EXTERNAL_MODULES"] == "mine,rlx_verl_hook,rlx_verl_weights"


@pytest.mark.parametrize(("name", "content"), [("gone.py", None), ("binary.py", b"\xff\xfe"), ("provenance.py", b"")])
def test_a_reward_file_that_cannot_travel_is_refused(name: str, content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=r"reward\.path"):
        plan(resolved(tmp_path, {"reward": {"path": name}}), SITE)


def test_text_that_omegaconf_would_replace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"model\.path"):
        plan(resolved(tmp_path, {"model": {"path": "/models/${oc.env:SECRET}"}}), SITE)
