"""Several nodes: launch.sh of each with a real Ray and logical NPUs, MindSpeed-RL's stand-in as the trainer.

Both nodes are on this machine, each with a run directory, Ray folder and session of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlx.model import Site
from rlx.resources import payload_folder
from tests.backends.mindspeed_rl import log_lines
from tests.backends.mindspeed_rl.conftest import MakeRecipe, file_of, planned
from tests.backends.mindspeed_rl.running import Nodes, Run

STAND_IN = Path(__file__).with_name("stand_in")
SMALL: dict[str, Any] = {
    "backend": {"workdir": str(STAND_IN), "python": sys.executable},
    "train": {"batch_size": 2, "mini_batch_size": 2, "micro_batch_size": 1, "steps": 4},
    "layout": {"nodes": 2, "devices_per_node": 2, "tp": 1, "pp": 1},
    "overrides": {"actor_config.load": "/w", "rl_config.num_cpus_for_placement_group": 0},
}
ENDLESS = {"train": {"steps": 100_000}}


# The first node of Ray starts, and is given up as one that took too long: what it started runs on.
GIVEN_UP = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
import ray, rlx_ray_head
from ray._private.node import Node

start, tries = Node.__init__, []

def slow(node, *arguments, **options):
    start(node, *arguments, **options)
    tries.append(node)
    if len(tries) == 1:
        raise Exception("The current node timed out during startup.")

Node.__init__ = slow
settings = {"offers": {"CPU": 1}, "object_store_memory": 80 << 20, "ready_within_s": 120}
rlx_ray_head.start(settings, time.monotonic() + 120, sys.argv[2])
print(len(tries), [node["Alive"] for node in ray.nodes()])
"""


def test_a_ray_that_is_begun_again_does_not_meet_the_first_one(real_ray: None, tmp_path: Path) -> None:
    address, _, port = Nodes(tmp_path).head_at.rpartition(":")
    ray = tempfile.mkdtemp(prefix="rlx-", dir="/tmp")
    environment = {**os.environ, "RAY_TMPDIR": ray, "RAY_GCS_SERVER_PORT": port}
    command = [sys.executable, "-c", GIVEN_UP, payload_folder(), address]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, encoding="utf-8")
    shutil.rmtree(ray)
    assert (done.returncode, done.stdout) == (0, "2 [True]\n"), done.stderr[-2000:]


class Cluster:
    """`begin(number)` starts one node of a run of the stand-in."""

    def __init__(self, recipe: MakeRecipe, nodes: Nodes) -> None:
        self._recipe, self._nodes, self.head_at = recipe, nodes, nodes.head_at

    def begin(self, number: int, *changes: dict[str, Any], nodes: int = 2, **variables: str) -> Run:
        plan = planned(self._recipe(SMALL, *changes), Site())
        return self._nodes.begin(plan, number, nodes, **{"RLX_DEVICES": "0,1", **variables})


@pytest.fixture
def cluster(real_ray: None, recipe: MakeRecipe, tmp_path: Path) -> Iterator[Cluster]:
    with Nodes(tmp_path) as nodes:
        yield Cluster(recipe, nodes)


def test_the_nodes_of_a_run_train_together(cluster: Cluster) -> None:
    """The head comes late."""
    worker = cluster.begin(1)
    time.sleep(2)
    head = cluster.begin(0)
    assert head.end() == 0, head.log
    assert worker.end() == 0, worker.log
    on = sorted(line.rpartition(" of ")[2] for line in head.log.splitlines() if " on NPU " in line)
    assert on == [f"rlx-node{node} on NPU {npu}" for node in (0, 1) for npu in (0, 1)]
    assert log_lines.HEAD_ENDED in worker.log
    for run in (head, worker):
        assert run.leaves_nothing(), run.left()
        assert Nodes.token not in run.log


def test_a_node_that_never_comes(cluster: Cluster) -> None:
    head = cluster.begin(0, NODES_WITHIN_S="1")
    assert head.end() == 1
    assert log_lines.NODE_LATE.format(1) in head.log and log_lines.NOTHING_STARTED in head.log
    assert head.leaves_nothing(), head.left()


def test_a_head_that_never_comes(cluster: Cluster) -> None:
    worker = cluster.begin(1, NODES_WITHIN_S="1")
    assert worker.end() == 1
    assert log_lines.HEAD_LATE.format(cluster.head_at) in worker.log
    assert worker.leaves_nothing(), worker.left()


def test_a_node_is_lost_while_another_is_waited_for(cluster: Cluster) -> None:
    head, worker = cluster.begin(0, nodes=3), cluster.begin(1, nodes=3)
    worker.wait_for("has joined the Ray")
    worker.kill_all()
    assert head.end() == 1
    assert log_lines.NODE_LOST.format("") in head.log and log_lines.NOTHING_STARTED in head.log
    assert head.leaves_nothing(), head.left()


def test_a_node_is_lost_during_the_training(cluster: Cluster) -> None:
    head, worker = cluster.begin(0, ENDLESS), cluster.begin(1, ENDLESS)
    head.wait_for("iteration: 2 / ")
    worker.kill_all()
    assert head.end() == 1
    assert log_lines.NODE_LOST.format("") in head.log
    assert head.leaves_nothing(), head.left()


def test_a_head_that_is_killed_takes_the_others_with_it(cluster: Cluster) -> None:
    """And a connection with another token is refused first."""
    head = cluster.begin(0, ENDLESS)
    head.wait_for("is up at")
    stranger = cluster.begin(1, RLX_RAY_TOKEN="5" * 64)
    assert stranger.end() == 1
    assert log_lines.WRONG_TOKEN.format(cluster.head_at) in stranger.log
    worker = cluster.begin(1, ENDLESS)
    head.wait_for("iteration: 2 / ")
    head.kill_all()
    assert worker.end() == 0, worker.log
    for run in (stranger, worker):
        assert run.leaves_nothing(), run.left()


def test_the_end_is_told_to_a_worker_and_to_the_head(cluster: Cluster) -> None:
    head, worker = cluster.begin(0, ENDLESS), cluster.begin(1, ENDLESS)
    head.wait_for("iteration: 2 / ")
    os.killpg(worker.process.pid, signal.SIGTERM)
    assert worker.end() == 143, worker.log
    assert head.end() == 1
    assert log_lines.NODE_LOST.format("") in head.log
    for run in (head, worker):
        assert run.leaves_nothing(), run.left()


def test_a_head_that_is_told_to_end_while_it_waits(cluster: Cluster) -> None:
    head, worker = cluster.begin(0, nodes=3), cluster.begin(1, nodes=3)
    worker.wait_for("has joined the Ray")
    os.killpg(head.process.pid, signal.SIGTERM)
    assert head.end() == 143, head.log
    assert worker.end() == 0, worker.log
    for run in (head, worker):
        assert run.leaves_nothing(), run.left()


def test_a_time_that_is_no_number(cluster: Cluster) -> None:
    worker = cluster.begin(1, NODES_WITHIN_S="an hour")
    assert worker.end() == 1
    assert "NODES_WITHIN_S is 'an hour'" in worker.log and "Traceback" not in worker.log


def test_a_taken_port(cluster: Cluster) -> None:
    with socket.socket() as taken:
        taken.bind(("", int(cluster.head_at.rpartition(":")[2])))
        taken.listen()
        head = cluster.begin(0)
        assert head.end() == 1
    place, problem = log_lines.PORT_TAKEN
    assert place.format(cluster.head_at.rpartition(":")[2]) in head.log and problem in head.log


def test_an_address_that_is_not_the_head_s(cluster: Cluster) -> None:
    head = cluster.begin(0, RLX_HEAD="192.0.2.200:29999")
    assert head.end() == 1
    assert log_lines.FOREIGN_ADDRESS.format("192.0.2.200") in head.log


def test_the_script_is_clean_for_shellcheck(recipe: MakeRecipe, tmp_path: Path) -> None:
    (tmp_path / "launch.sh").write_text(file_of(planned(recipe(SMALL), Site()), "launch.sh"), encoding="utf-8")
    checker = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run(
        [checker, tmp_path / "launch.sh"], capture_output=True, text=True, check=False, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout
