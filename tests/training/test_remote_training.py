"""The user's day: both arms trained for real in containers of two hosts behind ssh, watched from two laptops."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlx.model.attempt_lineage import MACHINE_CAUSES
from tests.rig import Client, Container, Host, Rig

pytestmark = pytest.mark.training

# Enough steps with and without noise for the second witness: 6 and 4.
SHORT = ("train.steps=10", "eval.every=5", "arms.aqn.aqn.stages=3")
IF_ITS_MACHINE_ENDS_IT = f"retry={{times: 1, on: [{', '.join(sorted(MACHINE_CAUSES))}]}}"
# Two trainings and all the rest share the processors of one small machine.
PATIENCE_S = 900


@pytest.fixture
def rooms(docker_rig: Rig) -> list[Container]:
    """A container on each host, set up as the documentation says; the client knows both hosts by name."""
    rooms = [host.docker.container("rl", {"/srv": "/data"}, python=True) for host in docker_rig.hosts]
    for host in docker_rig.hosts:
        docker_rig.client.rlx("hosts", "add", host.name, host.name, "--container", "rl", "--device", "cpu")
        docker_rig.client.rlx("data", "tiny-cpu", "--host", host.name, timeout_s=PATIENCE_S)
    return rooms


def launch(client: Client, host: str, arm: str) -> str:
    sets = [word for setting in (*SHORT, IF_ITS_MACHINE_ENDS_IT) for word in ("--set", setting)]
    return client.rlx("launch", "tiny-cpu", "--host", host, "--arm", arm, *sets).stdout.decode().strip()


def rows(client: Client, *words: str, home: Path | None = None) -> dict[str, dict[str, Any]]:
    env = {"RLX_HOME": str(home)} if home else None
    answer = json.loads(client.rlx("status", "--json", *words, env=env).stdout)
    return {row["run_id"]: row for row in answer["runs"]}


def until(client: Client, run: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while not reached(row := rows(client, run)[run]):
        if row["state"] not in ("queued", "starting", "running", "unreachable"):
            (found,) = json.loads(client.rlx("diagnose", run, "--json", check=False).stdout)["runs"]
            assert found["cause"] and found["cause"]["id"] in MACHINE_CAUSES, f"{row['state']}: {found}"
            client.rlx("retry", run)
        assert time.monotonic() < deadline, row
        time.sleep(1)
    return row


def is_training(row: dict[str, Any]) -> bool:
    return bool(row["steps_done"] >= 1)


def test_both_arms_on_two_hosts(docker_rig: Rig, rooms: list[Container], tmp_path: Path) -> None:
    client, (h1, h2) = docker_rig.client, docker_rig.hosts
    baseline, aqn = launch(client, "h1", "baseline"), launch(client, "h2", "aqn")
    row = until(client, baseline, is_training)
    assert (row["host"], row["container"], row["state"]) == ("h1", "rl", "running")
    assert "h1:rl" in client.rlx("status").stdout.decode()

    h1.cut()
    cut_off = until(client, baseline, lambda row: row["state"] == "unreachable")
    assert cut_off["last_known"] == "running"
    assert rows(client, aqn)[aqn]["state"] in ("starting", "running", "finished")
    h1.heal()
    until(client, baseline, lambda row: row["state"] != "unreachable" and row["steps_done"] > cut_off["steps_done"])

    # Another laptop knows nothing but the names of the hosts.
    for host, run in {"h1": baseline, "h2": aqn}.items():
        seen = rows(client, "--host", host, home=tmp_path / "another laptop")
        assert {run_id: row["container"] for run_id, row in seen.items()} == {run: "rl"}

    client.rlx("wait", baseline, aqn, timeout_s=PATIENCE_S)
    ended = rows(client, baseline, aqn)
    assert {row["arm"]: (row["state"], row["steps_done"], row["verdict"]["status"]) for row in ended.values()} == {
        "baseline": ("finished", 10, "valid"),
        "aqn": ("finished", 10, "valid"),
    }, ended
    # Two launches, and still each name means its newest run.
    assert json.loads(client.rlx("compare", "baseline", "aqn", "--json").stdout)["reportable"] is True
    for host, room, run in ((h1, rooms[0], baseline), (h2, rooms[1], aqn)):
        assert_nothing_is_left(host, room, run)


def test_stop_ends_all_of_a_run_and_no_other_ray(docker_rig: Rig, rooms: list[Container]) -> None:
    """In the same container a colleague has a Ray of their own, started by hand."""
    client, (h1, _) = docker_rig.client, docker_rig.hosts
    start = ("ray", "start", "--head", "--node-ip-address=127.0.0.1", "--num-cpus=1", "--include-dashboard=false")
    rooms[0].run(*start, timeout_s=PATIENCE_S)
    colleague = {pid: line for pid, line in commands(rooms[0]).items() if "ray" in line}
    assert any("raylet" in line for line in colleague.values())
    run = launch(client, "h1", "aqn")
    until(client, run, is_training)
    assert len(marked(rooms[0], run)) > 10
    said = client.rlx("stop", run).stderr.decode()
    assert "NOT stopped" not in said
    assert not marked(rooms[0], run), "a stop comes back when all of it has gone"
    assert_nothing_is_left(h1, rooms[0], run)
    assert colleague.items() <= commands(rooms[0]).items()
    assert client.rlx("wait", run, check=False).returncode == 13
    assert rows(client, run)[run]["verdict"]["status"] == "incomplete"


def assert_nothing_is_left(host: Host, room: Container, run: str) -> None:
    """Soon after its end, which is on record before it has tidied up."""
    deadline = time.monotonic() + 120
    while left := [*marked(room, run), *folders(host, room), *names(host, run)]:
        assert time.monotonic() < deadline, left
        time.sleep(1)
    (run_dir,) = host.path("/srv").glob(f"*/runs/{run}")
    assert not list(run_dir.glob("**/env"))


def folders(host: Host, room: Container) -> list[str]:
    """Ray's, and those of rlx's own."""
    inside = room.run("sh", "-c", "ls -d /tmp/rlx* || true").stdout.decode().split()
    return [*inside, *(path.name for path in host.path("/tmp").iterdir() if path.name.startswith("rlx"))]


def names(host: Host, run: str) -> list[str]:
    """The command lines on the host that name the run."""
    return [line for line in commands(host).values() if run in line]


def marked(room: Container, run: str) -> set[int]:
    """The live processes of the container that carry the run's mark."""
    found = room.run("sh", "-c", f"grep -slzx RLX_RUN={run} /proc/[0-9]*/environ || true", user="root").stdout
    return {int(name.split(b"/")[2]) for name in found.split()} & commands(room).keys()


def commands(machine: Container | Host) -> dict[int, str]:
    """What runs there; zombies have no command line."""
    script = "for p in /proc/[0-9]*; do echo \"$p $(tr '\\0' ' ' 2>/dev/null <$p/cmdline)\"; done"
    lines = [
        line.split(" ", 1) for line in machine.run("sh", "-c", script).stdout.decode(errors="replace").splitlines()
    ]
    return {int(process.removeprefix("/proc/")): text for process, text in lines if text}
