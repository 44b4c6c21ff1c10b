"""One training on two hosts: a worker of verl in a container on each, joined in one Ray by rlx."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.rig import Client, Container, Rig
from tests.training.test_remote_training import SHORT, commands, marked

pytestmark = pytest.mark.training

PATIENCE_S = 900
SETTINGS = ("layout.nodes=2", *SHORT)


@pytest.fixture
def rooms(docker_rig: Rig) -> dict[str, Container]:
    """A container on each host that shares the host's network, as nodes of one Ray need it."""
    client, rooms = docker_rig.client, {}
    for host in docker_rig.hosts:
        rooms[host.name] = host.docker.container("rl", {"/srv": "/data"}, python=True, options=("--network=host",))
        words = ("--container", "rl", "--device", "cpu", "--address", host.address)
        client.rlx("hosts", "add", host.name, host.name, *words)
        client.rlx("data", "tiny-cpu", "--host", host.name, timeout_s=PATIENCE_S)
    return rooms


def test_verl_trains_on_two_hosts(docker_rig: Rig, rooms: dict[str, Container], wording: SnapshotAssertion) -> None:
    client = docker_rig.client
    sets = [word for setting in SETTINGS for word in ("--set", setting)]
    launched = client.rlx("launch", "tiny-cpu", "--host", "h1,h2", "--arm", "aqn", *sets)
    run = launched.stdout.decode().strip()
    until(client, run, lambda row: row["steps_done"] >= 1)
    # A worker of the training on each host, and nothing but Ray's own on the second one besides.
    for name, room in rooms.items():
        node = run if name == "h1" else f"{run}-node1"
        lines = [commands(room)[pid] for pid in marked(room, node)]
        assert any("WorkerDict" in line for line in lines), (name, lines)
    assert client.rlx("status").stdout.decode().count("aqn") == 1
    client.rlx("wait", run, timeout_s=PATIENCE_S)
    row = row_of(client, run)
    assert (row["state"], row["steps_done"], row["verdict"]["status"]) == ("finished", 10, "valid"), row["verdict"]
    assert re.search(r"^rlx: .*\b2\b", client.rlx("logs", run, "--grep", "^rlx: .* nodes ").stdout.decode())
    until_gone(rooms, run)
    said = client.rlx("logs", f"{run}-node1", "--grep", "^rlx: .*Ray").stdout.decode()
    assert re.sub(r"\S+:\d+", "<head>", said.splitlines()[-1]) == wording


def row_of(client: Client, run: str) -> dict[str, Any]:
    (row,) = json.loads(client.rlx("status", "--json", run).stdout)["runs"]
    found: dict[str, Any] = row
    return found


def until(client: Client, run: str, reached: Callable[[dict[str, Any]], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached(row := row_of(client, run)):
        if row["state"] not in ("queued", "starting", "running", "unreachable"):
            logs = [client.rlx("logs", name, "-n", "60").stdout.decode() for name in (run, f"{run}-node1")]
            pytest.fail("\n====\n".join([str(row), *logs]))
        assert time.monotonic() < deadline, row
        time.sleep(2)


def until_gone(rooms: dict[str, Container], run: str) -> None:
    """Nothing of the run is left on either host, soon after it has ended. Its folder goes after its processes."""
    deadline = time.monotonic() + 120
    while left := [name for name, room in rooms.items() if is_left(room, run)]:
        assert time.monotonic() < deadline, left
        time.sleep(1)


def is_left(room: Container, run: str) -> bool:
    folders = room.run("sh", "-c", "ls -d /tmp/rlx* || true").stdout
    return bool(marked(room, run) or marked(room, f"{run}-node1") or folders)
