"""Containers that rlx makes of an image: on two hosts, beside what others have there, and gone after their last run."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.rig import Host
from tests.rig.docker import IMAGE
from tests.runs.sweeps import Sweep, began, let_go
from tests.runs.sweeps import sweep_of as sweep_of
from tests.runs.test_sweeps import RLX
from tests.runs.toys import until
from tests.wording import settled

# Both runs are begun inside, and wait for a file that this mount shows them.
MOUNTS = ["/usr:/usr:ro", "/srv:/srv"]
DEVICES = ("davinci0", "davinci1", "davinci_manager", "devmm_svm", "hisi_hdc")
CALLS = "/srv/docker.calls"
LIMITS = "--ulimit=memlock=-1:-1 --ulimit=nofile=65536:65536"


@pytest.fixture
def made(sweep_of: Callable[[int], Sweep]) -> Callable[..., Sweep]:
    """Hosts with a Docker Engine, whose entries name an image."""

    def make(count: int, **settings: Any) -> Sweep:
        sweep = sweep_of(count)
        for host in sweep.hosts:
            _ = host.docker
        write_entries(sweep, **settings)
        return sweep

    return make


def write_entries(sweep: Sweep, **settings: Any) -> None:
    image = {"name": IMAGE, "mounts": MOUNTS, **settings}
    from rlx.hosts import user_file

    entries = {host.name: {"ssh": host.name, "image": image} for host in sweep.hosts}
    user_file().parent.mkdir(parents=True, exist_ok=True)
    user_file().write_text(json.dumps({"hosts": entries}), encoding="utf-8")


def inspect(host: Host, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(host.run("docker", "inspect", name).stdout)[0]
    return found


def containers(host: Host) -> list[str]:
    return sorted(host.run("docker", "ps", "-a", "--format", "{{.Names}}").stdout.decode().split())


def of_others(host: Host) -> list[str]:
    """What of docker is there on the host and not made by rlx, with the times of its start."""
    names = [name for name in containers(host) if not name.startswith("rlx-made-")]
    seen = [f"{name} {inspect(host, name)['Id']} {inspect(host, name)['State']}" for name in names]
    return seen + host.run("docker", "images", "--no-trunc", "--quiet").stdout.decode().split()


def made_there(host: Host) -> list[str]:
    return [name for name in containers(host) if name.startswith("rlx-made-")]


def test_two_hosts_make_one_each_and_keep_it(made: Callable[..., Sweep]) -> None:
    sweep = made(2)
    for host in sweep.hosts:
        host.docker.container("neighbour")
        host.docker.container("asleep").stop()
        host.add_devices(*DEVICES)
        host.path("/etc/hccn.conf").write_text("address_0=192.0.2.1\n", encoding="utf-8")
        host.wrap_program("docker", f'[ "$1" != run ] || echo "$@" >>{CALLS}')
    before = [of_others(host) for host in sweep.hosts]
    sweep.rlx("doctor", "h1")
    assert made_there(sweep.hosts[0]) == []
    sweep.launch("--seed", 1, 2, "-y")
    assert sweep.heard(f"{IMAGE} (sha256:")
    until(lambda: all(map(began, sweep.hosts)), "each host has begun", 120)
    for host in sweep.hosts:
        (name,) = made_there(host)
        seen = inspect(host, name)
        assert seen["HostConfig"]["Init"] is True and seen["HostConfig"]["AutoRemove"] is False
        total = int(host.run("awk", "/^MemTotal:/ { print $2 }", "/proc/meminfo").stdout)
        assert seen["HostConfig"]["ShmSize"] == total // 2 * 1024 and seen["HostConfig"]["NetworkMode"] == "host"
        devices = {device["PathInContainer"] for device in seen["HostConfig"]["Devices"]}
        assert devices == {f"/dev/{name}" for name in DEVICES}
        mounts = {mount["Destination"]: mount["RW"] for mount in seen["Mounts"]}
        assert mounts["/etc/hccn.conf"] is False and mounts["/root/rlx"] is True and mounts["/usr"] is False
        # The rig may raise no limit, as a host without rights may not; what docker had created by then is gone.
        tried = [line for line in host.path(CALLS).read_text(encoding="utf-8").splitlines() if "--cidfile" in line]
        assert [LIMITS in line for line in tried] == [True, False]
    assert "LimitNOFILE" in sweep.rlx("doctor", "h1")
    let_go(*sweep.hosts)
    until(lambda: all(row["state"] == "finished" for row in sweep.rows()), "all have finished", 120)
    rows = sweep.rows()
    assert len(rows) == 4 and all(row["verdict"]["status"] == "valid" for row in rows)
    manifest = next(sweep.hosts[0].path("/root/rlx/runs").glob("*/manifest.json")).read_text(encoding="utf-8")
    assert inspect(sweep.hosts[0], made_there(sweep.hosts[0])[0])["Image"] in manifest
    first = [inspect(host, made_there(host)[0])["Id"] for host in sweep.hosts]
    sweep.launch("--seed", 3, "--seed", 4, "-y")
    assert not sweep.heard(f"{IMAGE} (sha256:")
    until(lambda: all(row["state"] == "finished" for row in sweep.rows()), "those have finished", 120)
    assert [inspect(host, made_there(host)[0])["Id"] for host in sweep.hosts] == first
    assert [of_others(host) for host in sweep.hosts] == before


def test_it_says_what_keeps_it_from_making_one(made: Callable[..., Sweep], wording: SnapshotAssertion) -> None:
    sweep = made(1)
    (host,) = sweep.hosts
    # Looking makes none.
    sweep.rlx("launch", sweep.recipe, "--host", "h1", "--dry-run", code=4)
    assert sweep.heard("rlx hosts start h1") and made_there(host) == []
    note = json.loads(sweep.rlx("doctor", "h1", "--json"))
    found = {one["id"]: one["severity"] for one in note["findings"]}
    assert found["RLX522"] == "note"

    # A mistyped recipe or script makes none either.
    sweep.rlx("launch", "--script", sweep.recipe.with_name("gpro.sh"), "--name", "own", "--host", "h1", code=2)
    assert sweep.heard("No such file")
    sweep.rlx("launch", sweep.recipe.with_name("smus.yaml"), "--host", "h1", code=2)
    sweep.rlx("launch", sweep.recipe, "--host", "h1", "--set", "train.lrr=1", code=2)
    assert made_there(host) == []

    def refused(*words: object, code: int = 4) -> str:
        sweep.rlx("hosts", "start", "h1", *words, code=code)
        return "\n".join(sweep.said)

    assert refused("--image", "rlx-rgi") == wording
    assert refused("--image", "rlx-rgi:latest") == wording
    assert refused("--image", "--privileged", code=2) == wording
    write_entries(sweep, mounts=["/usr:/usr:ro", "/data/nowhere:/data"])
    assert "/data/nowhere" in refused()
    assert not host.path("/data").exists() and made_there(host) == []
    write_entries(sweep)
    name = sweep.rlx("hosts", "start", "h1").strip()
    assert made_there(host) == [name]
    # Somebody has built the image anew: what runs is another one than its name says now.
    host.run("docker", "tag", host.docker.build("ENV A=1"), IMAGE)
    assert f"docker rm -f {name}" in refused()
    assert settled("\n".join(sweep.said), {name: "container"}) == wording
    host.run("docker", "rm", "-f", name)
    host.run("docker", "run", "--detach", f"--name={name}", "--volume=/usr:/usr:ro", IMAGE, "sleep", "infinity")
    own = inspect(host, name)["Id"]
    assert settled(refused(), {name: "container"}) == wording
    assert inspect(host, name)["Id"] == own and inspect(host, name)["State"]["Running"]
    host.docker.stop()
    assert "docker" in refused()


def test_a_sweep_leaves_out_a_host_that_has_no_such_image(
    made: Callable[..., Sweep], wording: SnapshotAssertion
) -> None:
    sweep = made(2)
    _, without = sweep.hosts
    without.run("docker", "rmi", IMAGE)
    let_go(*sweep.hosts)
    sweep.launch("--seed", 1, 2, "-y")
    (left_out,) = [line for line in sweep.said if "RLX043" in line]
    assert re.sub(r"rlx-made-[\w-]+", "<container>", left_out) == wording
    assert {row["host"] for row in sweep.rows()} == {"h1"} and made_there(without) == []


def test_two_launches_at_once_make_one(made: Callable[..., Sweep]) -> None:
    sweep = made(1)
    (host,) = sweep.hosts
    client = sweep.rig.client
    starts = [client.popen(sys.executable, "-c", RLX, "hosts", "start", "h1", stdout=-1) for _ in range(3)]
    names = {start.communicate(timeout=180)[0].decode().strip() for start in starts}
    assert names == set(made_there(host)) and len(names) == 1
    # Whoever made one may have been cut off; a stopped one is started again, since it is rlx's own.
    (name,) = names
    host.run("docker", "kill", name)
    assert sweep.rlx("hosts", "start", "h1").strip() == name
    assert inspect(host, name)["State"]["Running"] and made_there(host) == [name]
    # The cable was cut between docker's creating it and its starting it.
    host.run("docker", "rm", "-f", name)
    host.wrap_program("docker", '[ "$1" != run ] || [ -e /srv/whole ] || set -- create "${@:3}"')
    client.run(sys.executable, "-c", RLX, "hosts", "start", "h1")
    assert inspect(host, name)["State"]["Status"] == "created"
    host.path("/srv/whole").touch()
    client.run(sys.executable, "-c", RLX, "hosts", "start", "h1")
    assert inspect(host, name)["State"]["Running"] and made_there(host) == [name]


def test_one_that_is_not_kept_goes_after_its_last_run(made: Callable[..., Sweep]) -> None:
    sweep = made(1, keep=False, name="brief:1")
    (host,) = sweep.hosts
    host.run("docker", "tag", host.docker.build("ENV RLX_CONTAINER_IDLE_S=1"), "brief:1")
    launch(sweep, 1)
    until(lambda: began(host), "the run began", 120)
    (name,) = made_there(host)
    let_go(host)
    until(lambda: all(row["state"] == "finished" for row in sweep.rows()), "it has finished", 120)
    until(lambda: made_there(host) == [], "it is gone", 120)
    # Its runs are read on the host itself.
    rows = sweep.rows("--host", "h1")
    assert [row["verdict"]["status"] for row in rows] == ["valid"]
    assert sweep.rlx("hosts", "start", "h1").strip() == name
    until(lambda: made_there(host) == [], "it goes without any run", 120)


def test_one_that_is_not_kept_stays_while_a_run_waits(made: Callable[..., Sweep]) -> None:
    """A run waits on the host for a device that is in use: nothing runs in the container yet."""
    sweep = made(1, keep=False, name="brief:1")
    (host,) = sweep.hosts
    host.run("docker", "tag", host.docker.build("ENV RLX_CONTAINER_IDLE_S=1"), "brief:1")
    # A run on the host itself has its only place.
    launch(sweep, 1, "--container=")
    until(lambda: began(host), "the run on the host began", 120)
    launch(sweep, 2)
    (name,) = made_there(host)
    looks = set()

    def seen_often() -> bool:
        looks.update(waits(host, name))
        return len(looks) > 3

    until(seen_often, "it has looked three times whether it is wanted", 120)
    let_go(host)
    until(lambda: made_there(host) == [], "it is gone after the run", 120)
    assert [row["state"] for row in sweep.rows("--all")] == ["finished", "finished"]


def launch(sweep: Sweep, seed: int, *words: str) -> None:
    """As a command of its own: what it keeps open into the container is closed when it ends."""
    recipe = ("launch", str(sweep.recipe), "--host", "h1", "--arm", "slow", "--seed", str(seed), "-y", *words)
    sweep.rig.client.run(sys.executable, "-c", RLX, *recipe)


def waits(host: Host, name: str) -> list[str]:
    """The pids of the naps of its first process, as docker's daemon sees them."""
    lines = host.run("docker", "top", name, "-o", "pid,args").stdout.decode().splitlines()
    return [line.split()[0] for line in lines if "sleep 5" in line]
