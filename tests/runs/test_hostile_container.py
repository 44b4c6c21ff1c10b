"""Root of a container that shares the folder of leases: what it does there, and what the others on the host see."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import RlxError
from rlx.model import LaunchPlan, RunState
from rlx.runs import RunRef, query_leases
from tests.rig import Host, Rig
from tests.rig.docker import Container
from tests.runs.laptop import Laptop, patiently, toy

ADA = 2001
LEASES = "/var/tmp/rlx-leases"
DEVICE = "/leases/devices/cpu.0"


@pytest.fixture
def host(docker_rig: Rig) -> Host:
    host = docker_rig.host("h1")
    host.add_user("ada", ADA)
    return host


@pytest.fixture
def ada(docker_rig: Rig, host: Host, tmp_path: Path) -> Laptop:
    host.run("sh", "-c", f"mkdir -p {LEASES}/tickets {LEASES}/devices && chmod 1777 {LEASES} {LEASES}/*")
    laptop = Laptop(docker_rig.client, tmp_path / "home")
    finished(laptop, "first")
    return laptop


@pytest.fixture
def evil(host: Host, ada: Laptop) -> Container:
    return host.docker.container("evil", {LEASES: "/leases"})


def plan(laptop: Laptop, arm: str) -> LaunchPlan:
    return toy(laptop.site("ada@h1"), "exit 0\n", arm=arm)


def finished(laptop: Laptop, arm: str) -> RunRef:
    (ref,) = laptop.launch(plan(laptop, arm))
    assert laptop.ended(ref).state is RunState.FINISHED
    return ref


def test_what_it_leaves_there_holds_nobody_up(host: Host, ada: Laptop, evil: Container) -> None:
    """Files of others, pipes, devices and links, where tickets and claims are; also in her name, of the dead."""
    evil.run(
        *("sh", "-c"),
        f"cd /leases/tickets; mkfifo 1000000001.cpu; mknod 1000000002.cpu c 1 5; ln -s /proc/1/mem 1000000003.cpu\n"
        f"mkdir 1000000004.cpu; : >1999999999.cpu; chown {ADA} 1999999999.cpu\n"
        f"cd {DEVICE}; mkfifo 7; mknod 8 c 1 5; ln -s /proc/1/environ 9; echo 'x' >{ADA}; chown {ADA} {ADA}\n"
        'read -r boot </proc/sys/kernel/random/boot_id; echo "1 1 $boot h1 /x" >0; chmod 000 0',
    )
    finished(ada, "second")
    finished(ada, "third")


def test_what_it_locks_is_told_with_its_process(host: Host, ada: Laptop, evil: Container) -> None:
    hold = "flock %s sh -c 'echo locked >/leases/said; sleep 600'"
    evil.run("sh", "-c", f"({hold % '/leases/tickets'}) </dev/null >/dev/null 2>&1 &")
    patiently(host.path(f"{LEASES}/said").exists, "it has the lock")
    with pytest.raises(RlxError, match=r"tickets .* 15 s .* \d+ of root, flock"):
        ada.launch(plan(ada, "kept-out"))
    evil.restart()
    host.path(f"{LEASES}/said").unlink()
    evil.run("sh", "-c", f"({hold % DEVICE}) </dev/null >/dev/null 2>&1 &")
    patiently(host.path(f"{LEASES}/said").exists, "it has the device")
    (waiting,) = ada.launch(plan(ada, "waiting"))
    ada.reaches(waiting, RunState.QUEUED)
    site = ada.site("ada@h1")
    (foreign,) = ada.client.call(lambda: query_leases(site.place, site.leases)).foreign
    assert host.processes()[foreign.pid] == "flock"
    evil.stop()
    assert ada.ended(waiting).state is RunState.FINISHED


def test_a_folder_that_it_opened_to_all_is_refused(
    host: Host, ada: Laptop, evil: Container, wording: SnapshotAssertion
) -> None:
    evil.run("chmod", "0777", "/leases/tickets")
    with pytest.raises(RlxError, match=f"{LEASES}/tickets") as caught:
        ada.launch(plan(ada, "kept-out"))
    assert caught.value.message == wording
    evil.run("chmod", "1777", "/leases/tickets")
    finished(ada, "second")


def test_a_claim_in_her_name_holds_a_device_as_long_as_a_process_of_hers_lives(
    host: Host, ada: Laptop, evil: Container
) -> None:
    """Root can write files as anybody: that cannot be told from her own claim, and docs/hosts.md says so."""
    with host.popen("setpriv", f"--reuid={ADA}", f"--regid={ADA}", "--clear-groups", "sleep", "600") as process:
        (pid,) = patiently(
            lambda: [pid for pid in host.processes() if host.command_line(pid).split() == ["sleep", "600"]],
            "it runs",
        )
        tick = host.path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
        boot = host.path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        evil.run("sh", "-c", f"echo '{pid} {tick} {boot} h1 /x/forged' >{DEVICE}/{ADA}; chown {ADA} {DEVICE}/{ADA}")
        (waiting,) = ada.launch(plan(ada, "waiting"))
        ada.reaches(waiting, RunState.QUEUED)
        site = ada.site("ada@h1")
        (lease,) = ada.client.call(lambda: query_leases(site.place, site.leases)).held
        assert (lease.user, lease.run_id) == ("ada", "forged")
        host.run("kill", str(pid))
        process.wait(timeout=30)
    assert ada.ended(waiting).state is RunState.FINISHED
