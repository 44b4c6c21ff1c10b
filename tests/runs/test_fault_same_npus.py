"""The same NPUs wanted twice: from two laptops, two users, two containers, and by somebody who knows no leases."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from rlx.model import LaunchPlan, RunState
from rlx.runs import Leases, RunRef, query_leases
from tests.rig import Container, Host, Rig
from tests.runs.laptop import GO, Laptop, go, log, npu_toy, patiently, run_folder

NPUS = range(4)


@pytest.fixture
def host(docker_rig: Rig) -> Host:
    host = docker_rig.host("h1")
    host.add_devices(*(f"davinci{n}" for n in NPUS), "davinci_manager")
    return host


@pytest.fixture
def laptops(docker_rig: Rig, tmp_path: Path) -> list[Laptop]:
    return [Laptop(docker_rig.client, tmp_path / name) for name in ("one", "two")]


def container(host: Host, name: str, *numbers: int, user: str = "root", folder: str = "/srv") -> Container:
    devices = [f"/dev/davinci{n}" for n in numbers]
    return host.docker.container(name, {folder: "/data"}, devices=devices, user=user)


def devices_of(host: Host, ref: RunRef) -> str:
    def find() -> str | None:
        lines = log(host, ref).splitlines()
        return next((line.split()[1] for line in lines if line.startswith("devices ")), None)

    return patiently(find, f"{ref.run_id} says its devices")


def leases(laptop: Laptop, ref: RunRef) -> Leases:
    return laptop.client.call(lambda: query_leases(ref.place, "/var/tmp/rlx-leases"))


def at_once(laptops: list[Laptop], plans: list[LaunchPlan]) -> list[RunRef]:
    """One run from each laptop."""
    found: dict[int, RunRef] = {}

    def launch(number: int) -> None:
        (found[number],) = laptops[number].launch(plans[number])

    threads = [threading.Thread(target=launch, args=(number,)) for number in range(len(laptops))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[number] for number in range(len(laptops))]


def test_two_laptops_two_users_and_two_containers(host: Host, laptops: list[Laptop]) -> None:
    """The same recipe at the same time: one has the devices, one waits, and in the end both have run."""
    host.add_user("bob", 2002, docker=True)
    host.run("sh", "-c", "mkdir /srv/bob && chown 2002:2002 /srv/bob")
    container(host, "one", *NPUS)
    container(host, "two", *NPUS, user="2002:2002", folder="/srv/bob")
    sites = [laptops[0].site("h1", "one"), laptops[1].site("bob@h1", "two")]
    refs = at_once(laptops, [npu_toy(site, GO + "exit 0\n", count=3) for site in sites])
    assert len({ref.run_id for ref in refs}) == 2

    def running() -> list[int]:
        return [n for n in (0, 1) if "devices" in log(host, refs[n])]

    (first,) = patiently(running, "one of them starts")
    second = 1 - first
    waiting = laptops[second].reaches(refs[second], RunState.QUEUED)
    assert waiting.queued_behind == 1
    seen = leases(laptops[0], refs[0])
    assert {lease.run_id for lease in seen.held} == {refs[first].run_id}
    assert [ticket.run_id for ticket in seen.waiting] == [refs[second].run_id]
    assert {lease.user for lease in seen.held} == {("root", "bob")[first]}
    go(host, refs[first])
    assert laptops[first].ended(refs[first]).state is RunState.FINISHED
    # Whoever looks at the leases holds the lock of a device for a moment, which then counts as taken.
    taken = devices_of(host, refs[second]).split(",")
    assert len(set(taken)) == 3 and set(taken) < set("0123")
    assert running() == [0, 1] and laptops[second].see(refs[second]).leader_live
    go(host, refs[second])
    assert laptops[second].ended(refs[second]).state is RunState.FINISHED
    patiently(lambda: not leases(laptops[0], refs[0]).held, "all are free again")


def test_the_holder_of_one_user_is_killed_and_the_other_user_still_waits(host: Host, laptops: list[Laptop]) -> None:
    host.add_user("bob", 2002, docker=True)
    host.run("sh", "-c", "mkdir /srv/bob && chown 2002:2002 /srv/bob")
    container(host, "one", *NPUS)
    container(host, "two", *NPUS, user="2002:2002", folder="/srv/bob")
    (first,) = laptops[0].launch(npu_toy(laptops[0].site("h1", "one"), GO, count=4))
    assert devices_of(host, first) == "0,1,2,3"
    # From here on, the claim names the supervisor, which bob can see, though not root's files.
    holder = (run_folder(host, first) / "holder").read_text(encoding="utf-8").split()[0]
    claim = host.path("/var/tmp/rlx-leases/devices/npu.3/0")
    patiently(lambda: claim.read_text(encoding="utf-8").split()[0] != holder, "the claim passes to the supervisor")
    host.run("kill", "-9", holder)
    patiently(lambda: not laptops[0].see(first).holder_live, "its holder is gone")
    (second,) = laptops[1].launch(npu_toy(laptops[1].site("bob@h1", "two"), "true\n", 3))
    assert laptops[1].reaches(second, RunState.QUEUED)
    # The one that waits looks again and again whether a device is locked, and locks it for that moment.
    patiently(lambda: all(lease.outlives_holder for lease in leases(laptops[1], second).held), "only the run says so")
    go(host, first)
    assert devices_of(host, second) == "3"
    assert laptops[1].ended(second).state is RunState.FINISHED


def test_a_list_and_a_count_and_a_process_that_nobody_launched(host: Host, laptops: list[Laptop]) -> None:
    # Of this recording, devices 0 and 1 are in use.
    host.play_npu_smi("a3-ascend910-busy")
    container(host, "rl", *NPUS)
    laptop = laptops[0]
    site = laptop.site("h1", "rl")
    (listed,) = laptop.launch(npu_toy(site, GO, 3, arm="listed"))
    assert devices_of(host, listed) == "3"
    (counted,) = laptop.launch(npu_toy(site, GO, count=1, arm="counted"))
    assert devices_of(host, counted) == "2"
    (waiting,) = laptop.launch(npu_toy(site, GO, 1, arm="waiting"))
    seen = patiently(lambda: found if "118205" in (found := laptop.see(waiting)).detail else None, "it says why")
    assert (seen.state, "1:118205" in seen.detail) == (RunState.QUEUED, True)
    foreign = [(process.device, process.pid) for process in leases(laptop, waiting).foreign]
    assert (0, 118204) in foreign and (1, 118205) in foreign
    host.play_npu_smi("a3-ascend910")
    assert devices_of(host, waiting) == "1"
    for ref in (listed, counted, waiting):
        go(host, ref)
        assert laptop.ended(ref).state is RunState.FINISHED
