"""What verl is told where layout.nodes is greater than one: its Ray is started before it, and joined."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir

from rlx.backends.verl.backend import plan
from rlx.model import LaunchPlan, Severity, Site
from rlx.planning.rules import check
from tests.backends.conftest import CPU, VERSIONS, MakeRecipe, config_tree

TWO = {"layout": {"nodes": 2}}


@pytest.fixture
def reward(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "score.py").write_text("def compute_score(**_): return 0.0\n", encoding="utf-8")
    return {"reward": {"path": "score.py"}}


def file_of(launch: LaunchPlan, path: str) -> str:
    return next(file.content for file in launch.files if file.path == path)


def test_a_cluster_that_is_joined_is_given_no_resources(recipe: MakeRecipe) -> None:
    """ray.init refuses them then."""
    launch = plan(recipe(CPU, TWO), Site())
    assert not any("ray_kwargs" in argument for argument in launch.command)
    assert {"trainer.nnodes=2", "trainer.n_gpus_per_node=1"} <= set(launch.command)
    assert "GLOO_SOCKET_IFNAME" not in launch.env, "lo reaches no other node"
    settings = json.loads(file_of(launch, "payload/rlx_ray.json"))
    assert settings["offers"] == {"CPU": 8, "GPU": 1}
    assert (settings["each_node"], settings["all_nodes"]) == ({"GPU": 1}, {"GPU": 2})
    assert settings["object_store_memory"] == 256 * 1024**2


@pytest.mark.parametrize(("device", "resource"), [("npu", "NPU"), ("cuda", "GPU")])
def test_real_devices_are_what_ray_finds(device: str, resource: str, recipe: MakeRecipe) -> None:
    settings = json.loads(file_of(plan(recipe({"layout": {"device": device}}, TWO), Site()), "payload/rlx_ray.json"))
    assert settings["offers"] == {} and settings["object_store_memory"] is None
    assert (settings["each_node"], settings["all_nodes"]) == ({resource: 8}, {resource: 16})


@pytest.mark.parametrize("version", VERSIONS)
def test_a_reward_file_is_found_on_every_node(
    version: str, recipe: MakeRecipe, reward: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run directories differ; what links to them is called alike."""
    monkeypatch.setenv("RLX_RAY_TMP", "/tmp/rlx-012345")
    launch = plan(recipe({"backend": {"version": version}}, TWO, reward), Site())
    with initialize_config_dir(str(config_tree(version)), version_base=None):
        config = compose("ppo_trainer", list(launch.command[4:]))
    section = config.get("reward", config)
    function = section.get("custom_reward_function", config.get("custom_reward_function"))
    assert function["path"] == "/tmp/rlx-012345/run/payload/score.py"
    assert file_of(launch, "payload/score.py")


def test_how_long_the_nodes_wait_can_be_set(recipe: MakeRecipe) -> None:
    assert plan(recipe(TWO, {"env": {"NODES_WITHIN_S": "60"}}), Site()).env["NODES_WITHIN_S"] == "60"


def test_one_node_has_none_of_it(recipe: MakeRecipe) -> None:
    launch = plan(recipe(CPU), Site())
    assert not any("rlx_ray" in file.path for file in launch.files)
    assert "RLX_RAY_TOKEN" not in file_of(launch, "launch.sh")


def test_batches_are_split_over_all_devices(recipe: MakeRecipe) -> None:
    """16 prompts of 5 samples: 8 devices share them, 3 × 8 do not."""
    batch = {"train": {"batch_size": 16, "mini_batch_size": 16}}
    one, three = (
        {finding.id for finding in check(recipe(batch, {"layout": {"nodes": nodes}})) if is_error(finding)}
        for nodes in (1, 3)
    )
    assert three - one, (one, three)


def is_error(finding: Any) -> bool:
    return bool(finding.severity is Severity.ERROR)


@pytest.mark.parametrize("change", [CPU, {}], ids=["cpu", "npu"])
def test_the_script_is_clean_for_shellcheck(change: dict[str, Any], recipe: MakeRecipe, tmp_path: Path) -> None:
    (tmp_path / "launch.sh").write_text(file_of(plan(recipe(change, TWO), Site()), "launch.sh"), encoding="utf-8")
    checker = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run(
        [checker, tmp_path / "launch.sh"], capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout
