"""`rlx launch` over SSH to a host of the rig whose NPUs are device nodes; the stand-in trains nothing, Ray is real."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.backends.mindspeed_rl.data import packed_files
from tests.backends.mindspeed_rl.conftest import BASE
from tests.rig.client import Client
from tests.rig.host import Host
from tests.rig.rig import Rig
from tests.runs.laptop import patiently

STAND_IN = Path(__file__).with_name("stand_in")
SETUP = "/srv/set_env.sh"
PATIENCE_S = 600
ENDED = ("finished", "failed", "stopped", "lost")


@pytest.fixture
def rig(new_rig: Callable[[int], Rig]) -> Rig:
    rig = new_rig(1)
    host = rig.host("h1")
    host.add_devices("davinci_manager", "davinci0", "davinci1")
    host.play_npu_smi("a3-ascend910")
    furnish(host)
    rig.client.rlx("hosts", "add", "h1", "h1", "--device", "npu:2", "--setup", SETUP)
    return rig


def furnish(host: Host) -> None:
    """What a look before the launch asks for; nothing of it is ever read."""
    names = ["model/config.json", "model/x.safetensors", "weights/latest_checkpointed_iteration.txt"]
    for name in (*names, *packed_files("train")):
        path = host.path(f"/srv/{name}")
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}", encoding="utf-8")
    host.path("/srv/cann").mkdir()
    host.path("/srv/cann/acl.py").write_text('"""Plays the Python module of CANN."""', encoding="utf-8")
    host.path(SETUP).write_text("export PYTHONPATH=/srv/cann${PYTHONPATH:+:$PYTHONPATH}\n", encoding="utf-8")


def launch(
    client: Client,
    folder: Path,
    steps: int,
    *,
    hosts: str = "h1",
    nodes: int | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """The run's id. It takes two NPUs of each host, or of as many nodes of one that has Slurm."""
    document: dict[str, Any] = {
        **BASE,
        "name": "standin",
        "backend": {"workdir": str(STAND_IN), "python": sys.executable},
        "train": {"batch_size": 4, "mini_batch_size": 4, "micro_batch_size": 1, "steps": steps},
        "layout": {"nodes": nodes or len(hosts.split(",")), "devices_per_node": 2, "tp": 1, "pp": 1},
        "env": dict(env or {}),
        "model": {"path": "/srv/model"},
        "data": {"train": "/srv/train"},
        "overrides": {"actor_config.load": "/srv/weights", "rl_config.num_cpus_for_placement_group": 0},
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return client.rlx("launch", str(folder / "recipe.yaml"), "--host", hosts).stdout.decode().strip()


def row(client: Client, run: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = json.loads(client.rlx("status", "--json", "-a", check=False).stdout)["runs"]
    return next(one for one in rows if one["run_id"] == run)


def until(client: Client, run: str, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while not what(seen := row(client, run)):
        assert time.monotonic() < deadline, client.rlx("logs", run, "-n", "60").stdout.decode()
        time.sleep(2)
    return seen


def rays(host: Host) -> list[str]:
    return [name for name in host.processes().values() if name in ("raylet", "gcs_server") or name.startswith("ray::")]


def test_a_run_is_launched_judged_and_another_stopped(rig: Rig, tmp_path: Path) -> None:
    host, client = rig.host("h1"), rig.client
    checkout = {entry.name for entry in STAND_IN.iterdir()}
    done = launch(client, tmp_path, 4)
    seen = until(client, done, lambda one: one["state"] in ENDED)
    assert (seen["state"], seen["verdict"]["status"]) == ("finished", "unverified"), client.rlx(
        "logs", done, "-n", "60"
    ).stdout
    assert seen["metric"] == "math_17k_acc_rewards/mean"
    endless = launch(client, tmp_path, 100_000)
    until(client, endless, lambda one: one["state"] == "running")
    assert rays(host)
    client.rlx("stop", endless, timeout_s=PATIENCE_S)
    assert until(client, endless, lambda one: one["state"] in ENDED)["state"] == "stopped"
    # What has ended still has its name until the host's first process asks how.
    patiently(lambda: not rays(host), "nothing of its Ray is left")
    assert {entry.name for entry in STAND_IN.iterdir()} == checkout
