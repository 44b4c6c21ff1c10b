"""Both arms of the tiny recipe with three seeds, spread over two hosts: real verl in a container on each."""

from __future__ import annotations

import json

import pytest

from tests.rig import Rig
from tests.training.test_remote_training import SHORT

# Six trainings, two at once: beside another one they take longer than the time of one test.
pytestmark = [pytest.mark.training, pytest.mark.timeout(1800)]

PATIENCE_S = 1700
SETS = [word for setting in SHORT for word in ("--set", setting)]


def test_a_sweep_is_trained_on_two_hosts(docker_rig: Rig) -> None:
    client = docker_rig.client
    for host in docker_rig.hosts:
        host.docker.container("rl", {"/srv": "/data"}, python=True)
        client.rlx("hosts", "add", host.name, host.name, "--container", "rl", "--device", "cpu")
        client.rlx("data", "tiny-cpu", "--host", host.name, timeout_s=PATIENCE_S)
    words = ("--host", "h1,h2", "--spread", "--seed", "1", "2", "3", *SETS)
    ids = client.rlx("launch", "tiny-cpu", *words).stdout.decode().split()
    client.rlx("wait", timeout_s=PATIENCE_S)
    rows = json.loads(client.rlx("status", "--json").stdout)["runs"]
    assert sorted(row["run_id"] for row in rows) == sorted(ids) and len(ids) == 6
    assert {(row["state"], row["verdict"]["status"]) for row in rows} == {("finished", "valid")}, rows
    homes = {seed: {row["host"] for row in rows if row["seed"] == seed} for seed in (1, 2, 3)}
    assert all(len(hosts) == 1 for hosts in homes.values()) and set().union(*homes.values()) == {"h1", "h2"}
