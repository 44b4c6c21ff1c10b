"""Several nodes: launch.sh of each with a real Ray and logical NPUs, MindSpeed-RL's stand-in as the trainer.

Both nodes are on this machine, each with a run directory, Ray folder and session of its own.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlx.plan import Site
from tests.backends.mindspeed_rl.conftest import MakeRecipe, planned
from tests.backends.mindspeed_rl.running import Run

STAND_IN = Path(__file__).with_name("stand_in")
TOKEN = "4" * 64
SMALL: dict[str, Any] = {
    "backend": {"workdir": str(STAND_IN), "python": sys.executable},
    "train": {"batch_size": 2, "mini_batch_size": 2, "micro_batch_size": 1, "steps": 4},
    "layout": {"nodes": 2, "devices_per_node": 2, "tp": 1, "pp": 1},
    "overrides": {"actor_config.load": "/w", "rl_config.num_cpus_for_placement_group": 0},
}
ENDLESS = {"train": {"steps": 100_000}}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def own_address() -> str:
    """As other machines know this one; Ray puts nodes of 127.0.0.1 there as well."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.77", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


class Cluster:
    """Nodes of one run. `begin(number)` starts one."""

    def __init__(self, recipe: MakeRecipe, folder: Path) -> None:
        self._recipe, self._folder = recipe, folder
        self._address = own_address()
        self.head_at = f"{self._address}:{free_port()}"
        self.runs: list[Run] = []

    def begin(self, number: int, *changes: dict[str, Any], nodes: int = 2, **variables: str) -> Run:
        cluster = {
            "RLX_DEVICES": "0,1",
            "RLX_NODE": str(number),
            "RLX_NODES": str(nodes),
            "RLX_HEAD": self.head_at,
            "RLX_RAY_TOKEN": TOKEN,
            "NODES_WITHIN_S": "240",
        }
        plan = planned(self._recipe(SMALL, *changes), Site())
        folder = self._folder / f"run-{os.getpid()}-{len(self.runs)}-node{number}"
        self.runs.append(Run.begin(plan, folder, {**cluster, **variables}))
        return self.runs[-1]


@pytest.fixture
def cluster(recipe: MakeRecipe, tmp_path: Path) -> Iterator[Cluster]:
    nodes = Cluster(recipe, tmp_path)
    yield nodes
    for run in nodes.runs:
        run.discard()


def test_the_nodes_of_a_run_train_together(cluster: Cluster) -> None:
    worker = cluster.begin(1)
    head = cluster.begin(0)
    assert head.end() == 0, head.log
    assert worker.end() == 0, worker.log
    on = sorted(line.rpartition(" of ")[2] for line in head.log.splitlines() if " on NPU " in line)
    assert on == [f"rlx-node{node} on NPU {npu}" for node in (0, 1) for npu in (0, 1)]
    assert "has ended, and with it this node" in worker.log
    assert head.leaves_nothing() and worker.leaves_nothing(), (head.left(), worker.left())
