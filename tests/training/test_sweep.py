"""Both arms of the tiny recipe with three seeds over four hosts: real verl, in containers that rlx made of an image.

One host has a full disk and one is cut off, so two train, of which one reboots while it does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from rlx.hosts import user_file
from rlx.model.attempt_lineage import LOST, MACHINE_CAUSES
from tests.rig import Host, Rig
from tests.rig.machine import python_folders
from tests.runs.toys import until
from tests.training.test_remote_training import SHORT

# Six trainings, two at once: beside another one they take longer than the time of one test.
pytestmark = [pytest.mark.training, pytest.mark.timeout(1800)]

PATIENCE_S = 1700
RETRY = f"retry={{times: 2, on: [{', '.join((LOST, *sorted(MACHINE_CAUSES)))}]}}"
SETS = [word for setting in (*SHORT, RETRY) for word in ("--set", setting)]


def test_a_sweep_is_trained_by_those_of_four_hosts_that_can(new_rig: Callable[[int], Rig]) -> None:
    rig = new_rig(4)
    client = rig.client
    *able, full, silent = rig.hosts
    entries = {host.name: {"ssh": host.name, "device": {"kind": "cpu"}} for host in rig.hosts}
    images = {host.name: {"image": image_of(host)} for host in able}
    user_file().parent.mkdir(parents=True, exist_ok=True)
    user_file().write_text(
        json.dumps({"hosts": {name: entries[name] | images.get(name, {}) for name in entries}}), encoding="utf-8"
    )
    for host in able:
        client.rlx("hosts", "start", host.name)
        client.rlx("data", "tiny-cpu", "--host", host.name, timeout_s=PATIENCE_S)
    full.path("/root/rlx").mkdir()
    full.limit_disk("/root/rlx", 1 << 20)
    silent.cut()
    words = ("--host", "h1,h2,h3,h4", "--spread", "--seed", "1", "2", "3", *SETS)
    launched = client.rlx("launch", "tiny-cpu", *words, timeout_s=PATIENCE_S)
    ids, said = launched.stdout.decode().split(), launched.stderr.decode()
    assert said.count("RLX043") == 2 and "RLX512" in said
    # The laptop goes to sleep while a run trains; each host works off its share, until one of them reboots.
    with client.start_rlx("wait") as rlx:
        until(lambda: trains_on(rig, able[0]), "a run trains on the first host", PATIENCE_S)
        rlx.kill()
    able[0].reboot()
    assert able[0].docker
    assert "lost" in {row["state"] for row in rows_of(rig) if row["host"] == able[0].name}
    client.rlx("hosts", "start", able[0].name)
    # The recipe asks for another attempt of what is lost.
    client.rlx("wait", timeout_s=PATIENCE_S)
    rows = rows_of(rig)
    assert sorted(row["run_id"] for row in rows) == sorted(ids) and len(ids) == 6
    assert {(row["state"], row["verdict"]["status"]) for row in rows} == {("finished", "valid")}, rows
    homes = {seed: {row["host"] for row in rows if row["seed"] == seed} for seed in (1, 2, 3)}
    assert all(len(hosts) == 1 for hosts in homes.values()) and set().union(*homes.values()) == {"h1", "h2"}


def trains_on(rig: Rig, host: Host) -> bool:
    return any(row["host"] == host.name and row["state"] == "running" for row in rows_of(rig))


def image_of(host: Host) -> dict[str, Any]:
    """One that knows where the Python of the tests is."""
    image = host.docker.build(f"ENV PATH={sys.prefix}/bin:/usr/sbin:/usr/bin LANG=C.UTF-8")
    host.run("docker", "tag", image, "verl:1")
    folders = [f"{folder.resolve()}:{folder}:ro" for folder in python_folders()]
    return {"name": "verl:1", "mounts": ["/usr:/usr:ro", "/srv:/data", *folders]}


def rows_of(rig: Rig) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(rig.client.rlx("status", "--json").stdout)["runs"]
    return rows
