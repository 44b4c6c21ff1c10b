"""`rlx launch` of a run of two nodes as one job of Slurm, with a real Ray over both. The stand-in trains nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backends.mindspeed_rl import log_lines
from tests.backends.mindspeed_rl.test_on_a_host import ENDED, SETUP, furnish, launch, rays, until
from tests.rig.capabilities import RigUnavailable
from tests.rig.fixtures import leave_out
from tests.rig.slurm import ROOT, Cluster, cluster


@pytest.fixture
def slurm(
    rig_switch: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    monkeypatch.delenv("RLX_SSH_CONFIG", raising=False)
    try:
        with cluster(2, rig_switch, [tmp_path_factory.getbasetemp()], npus=2) as started:
            for host in started.rig.hosts:
                furnish(host)
            options = ("--slurm", "main", "--gres", "npu:2", "--root", ROOT, "--setup", SETUP)
            started.rig.client.rlx("hosts", "add", "hpc", "h1", *options)
            yield started
    except RigUnavailable as reason:
        leave_out(reason)


def assert_nothing_is_left(slurm: Cluster) -> None:
    deadline = time.monotonic() + 120
    while left := [found for host in slurm.nodes for found in (*rays(host), *host.path("/tmp").glob("rlx-*"))]:
        assert time.monotonic() < deadline, left
        time.sleep(0.5)


def test_the_nodes_of_a_job_have_one_ray_and_one_that_dies_ends_it(slurm: Cluster, tmp_path: Path) -> None:
    client = slurm.rig.client
    run = launch(client, tmp_path, 4, hosts="hpc", nodes=2)
    seen = until(client, run, lambda one: one["state"] in ENDED)
    log = client.rlx("logs", run, "-n", "400").stdout.decode()
    assert (seen["state"], seen["verdict"]["status"]) == ("finished", "unverified"), log
    assert log_lines.ALL_NODES.format(2) in client.rlx("logs", run, "--grep", "nodes are there").stdout.decode()
    until(client, run, lambda one: one["detail"] == "")
    assert log_lines.HEAD_ENDED in client.rlx("logs", f"{run}-node1", "-n", "400").stdout.decode()
    lost = launch(client, tmp_path, 100_000, hosts="hpc", nodes=2)
    until(client, lost, lambda one: one["steps_done"] >= 1)
    slurm.nodes[1].kill("raylet")
    assert until(client, lost, lambda one: one["state"] in ENDED)["state"] == "failed"
    assert log_lines.NODE_LOST.format("h3") in client.rlx("logs", lost, "-n", "400").stdout.decode()
    assert_nothing_is_left(slurm)
