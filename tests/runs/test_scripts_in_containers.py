"""Scripts written for a machine of one's own, in two containers that share the processes and ports of a host."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.rig import Client, Rig
from tests.runs.test_shared_scripts import SCRIPT, TRAIN, TRAINS

SHARED = ("--network=host", "--pid=host")


def row_of(client: Client, run: str) -> dict[str, Any]:
    (row,) = json.loads(client.rlx("status", run, "--json").stdout)["runs"]
    return dict(row)


def log_of(client: Client, run: str) -> str:
    return client.rlx("logs", run, "--raw").stdout.decode(errors="replace")


@pytest.mark.slow
def test_two_at_once(docker_rig: Rig) -> None:
    host, client = docker_rig.host("h1"), docker_rig.client
    host.add_devices("nvidia0", "nvidia1")
    host.path("/srv/train.py").write_text(TRAIN, encoding="utf-8")
    stranger = host.popen("sleep", "4444")
    runs = {}
    for name in ("rl1", "rl2"):
        nodes = ("/dev/nvidia0", "/dev/nvidia1")
        host.docker.container(name, {"/srv": "/data"}, python=True, devices=nodes, options=SHARED)
        client.rlx("hosts", "add", name, "h1", "--container", name, "--device", "cuda:2")
        text = "pkill sleep\n" + SCRIPT.format(train="/data/train.py", go=f"/data/go-{name}")
        client.run("sh", "-c", f"cat >/tmp/{name}.sh", stdin=text.encode())
        words = ("launch", "--script", f"/tmp/{name}.sh", "--name", name, "--host", name, "--devices", "1")
        runs[name] = client.rlx(*words).stdout.decode().strip()
    seen = {}
    deadline = time.monotonic() + 900
    while len(seen) < 2:
        for name, run in runs.items():
            if found := TRAINS.search(log := log_of(client, run)):
                seen[name] = found.groups()
            assert row_of(client, run)["state"] in ("queued", "starting") and time.monotonic() < deadline, log
        time.sleep(1)
    assert len({address for _, address, _ in seen.values()}) == 2
    assert sorted(device for device, _, _ in seen.values()) == ["0", "1"]
    client.rlx("stop", runs["rl2"], timeout_s=300)
    assert [row_of(client, run)["state"] for run in runs.values()] == ["starting", "stopped"]
    host.path("/srv/go-rl1").touch()
    client.rlx("wait", runs["rl1"], check=False, timeout_s=600)
    assert row_of(client, runs["rl1"])["state"] == "finished"
    assert "trained 42" in log_of(client, runs["rl1"])
    assert stranger.poll() is None
    stranger.kill()
