"""`rlx launch` of one run to two hosts behind ssh, one Ray over both. The stand-in trains nothing, Ray is real."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.backends.mindspeed_rl import log_lines
from tests.backends.mindspeed_rl.test_on_a_host import PATIENCE_S, SETUP, furnish, launch, rays, row, until
from tests.rig.rig import Rig

ENDLESS = 100_000


@pytest.fixture
def rig(new_rig: Callable[[int], Rig]) -> Rig:
    rig = new_rig(2)
    for host in rig.hosts:
        host.add_devices("davinci_manager", "davinci0", "davinci1")
        host.play_npu_smi("a3-ascend910")
        furnish(host)
        options = ("--device", "npu:2", "--address", host.address, "--setup", SETUP)
        rig.client.rlx("hosts", "add", host.name, host.name, *options)
    return rig


def log(rig: Rig, run: str) -> str:
    return rig.client.rlx("logs", run, "-n", "400").stdout.decode()


def ended(rig: Rig, run: str) -> dict[str, Any]:
    return until(rig.client, run, lambda one: one["state"] in ("finished", "failed", "stopped", "lost"))


def assert_nothing_is_left(rig: Rig) -> None:
    deadline = time.monotonic() + 120
    while left := [found for host in rig.hosts for found in (*rays(host), *host.path("/tmp").glob("rlx-*"))]:
        assert time.monotonic() < deadline, left
        time.sleep(0.5)


def test_both_hosts_lend_their_npus_and_keep_nothing(rig: Rig, tmp_path: Path) -> None:
    run = launch(rig.client, tmp_path, 4, hosts="h1,h2")
    seen = ended(rig, run)
    assert (seen["state"], seen["verdict"]["status"]) == ("finished", "unverified"), log(rig, run)
    assert log_lines.ALL_NODES.format(2) in rig.client.rlx("logs", run, "--grep", "nodes are there").stdout.decode()
    until(rig.client, run, lambda one: one["detail"] == "")
    assert log_lines.HEAD_ENDED in log(rig, f"{run}-node1")
    assert_nothing_is_left(rig)


def test_a_node_that_dies_ends_the_run_and_stop_ends_both(rig: Rig, tmp_path: Path) -> None:
    lost = launch(rig.client, tmp_path, ENDLESS, hosts="h1,h2")
    until(rig.client, lost, lambda one: one["steps_done"] >= 1)
    rig.host("h2").kill("raylet")
    assert ended(rig, lost)["state"] == "failed"
    assert log_lines.NODE_LOST.format("h2") in log(rig, lost)
    stopped = launch(rig.client, tmp_path, ENDLESS, hosts="h1,h2")
    until(rig.client, stopped, lambda one: one["steps_done"] >= 1)
    said = rig.client.rlx("stop", stopped, timeout_s=PATIENCE_S).stdout.decode()
    assert said.count("no processes left") == 2
    assert row(rig.client, stopped)["state"] == "stopped"
    assert_nothing_is_left(rig)


def test_a_cable_that_is_cut_between_the_hosts(rig: Rig, tmp_path: Path) -> None:
    """The head's host goes on without the other, and says so; the other gives its devices back by itself."""
    run = launch(rig.client, tmp_path, ENDLESS, hosts="h1,h2")
    until(rig.client, run, lambda one: one["steps_done"] >= 1)
    rig.host("h2").cut()
    assert ended(rig, run)["state"] == "failed"
    assert log_lines.NODE_LOST.format("h2") in log(rig, run)
    assert "node 1 on h2: unreachable" in row(rig.client, run)["detail"]
    # Nobody can tell it; it looks for itself.
    assert_nothing_is_left(rig)
    rig.host("h2").heal()
    assert until(rig.client, run, lambda one: one["detail"] == "")["state"] == "failed"
    assert log_lines.OUT_OF_REACH in log(rig, f"{run}-node1")


def test_a_node_that_is_lost_while_the_head_waits_for_it(rig: Rig, tmp_path: Path) -> None:
    """Its devices are somebody else's for now; then somebody stops it."""
    other = launch(rig.client, tmp_path, ENDLESS, hosts="h2")
    until(rig.client, other, lambda one: one["steps_done"] >= 1)
    run = launch(rig.client, tmp_path, 4, hosts="h1,h2", env={"NODES_WITHIN_S": "60"})
    until(rig.client, run, lambda one: "node 1 on h2: queued (behind 1 run)" in one["detail"])
    rig.client.rlx("stop", f"{run}-node1", timeout_s=PATIENCE_S)
    assert "node 1 on h2: stopped" in row(rig.client, run)["detail"]
    assert ended(rig, run)["state"] == "failed"
    assert log_lines.NODE_LATE.format(60) in log(rig, run)
    rig.client.rlx("stop", other, timeout_s=PATIENCE_S)
    assert_nothing_is_left(rig)
