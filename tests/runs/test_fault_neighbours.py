"""Two users of a host without rights of their own: what one puts into the folder of leases, and what the other sees."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rlx.errors import RlxError
from rlx.model import LaunchPlan, RunState
from rlx.runs import RunRef, query_leases
from tests.rig import Host, Rig
from tests.runs.laptop import Laptop, patiently, toy

ADA, EVE = 2001, 2002
LEASES = "/var/tmp/rlx-leases"


def as_user(uid: int, script: str) -> list[str]:
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "sh", "-c", script]


@contextmanager
def running(host: Host, uid: int, script: str) -> Iterator[subprocess.Popen[bytes]]:
    """A script of a user that says `ready` and stays until the block ends."""
    with host.popen(*as_user(uid, f"{script}\n"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        yield process
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=30)


HOLD = "flock %s sh -c 'echo ready; read -r _'"


@pytest.fixture
def host(rig: Rig) -> Host:
    host = rig.host("h1")
    host.add_user("ada", ADA)
    host.add_user("eve", EVE)
    return host


@pytest.fixture
def ada(rig: Rig, host: Host, tmp_path: Path) -> Laptop:
    """She has launched a run: the folder of leases is there, and is hers."""
    laptop = Laptop(rig.client, tmp_path / "home")
    finished(laptop, "first")
    return laptop


def plan(laptop: Laptop, arm: str) -> LaunchPlan:
    return toy(laptop.site("ada@h1"), "exit 0\n", arm=arm)


def finished(laptop: Laptop, arm: str) -> RunRef:
    (ref,) = laptop.launch(plan(laptop, arm))
    assert laptop.ended(ref).state is RunState.FINISHED
    return ref


def eve_does(host: Host, script: str) -> None:
    host.run(*as_user(EVE, script))


def test_what_a_neighbour_leaves_in_the_folder_of_leases_holds_nobody_up(host: Host, ada: Laptop) -> None:
    tick = host.path("/proc/1/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    boot = host.path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    device = f"{LEASES}/devices/cpu.0"
    eve_does(
        host,
        f"cd {LEASES}/tickets; : >9999999999.cpu; : >1999999999.cpu; : >1000000001.cpu; ln -s / 1000000002.cpu\n"
        f"echo '1 {tick} {boot} h1 /x' >{device}/{EVE}; echo '1 {tick} {boot} /x' >{device}/1\n"
        f": >{device}/{ADA}.tmp; ln -s /proc/1/stat {device}/3",
    )
    finished(ada, "second")
    # The name of her own claim, too.
    host.path(f"{device}/{ADA}").unlink(missing_ok=True)
    eve_does(host, f"echo '1 1 x h1 /x' >{device}/{ADA}")
    finished(ada, "third")
    with running(host, EVE, f"exec 6>{LEASES}/tickets/1000000000.cpu; flock 6; echo ready; read -r _"):
        finished(ada, "fourth")
    with running(host, EVE, f"exec 6>{LEASES}/tickets/1999999998.cpu; flock 6; echo ready; read -r _"):
        finished(ada, "fifth")


def test_who_locks_what_all_share_is_named(host: Host, ada: Laptop) -> None:
    with (
        running(host, EVE, HOLD % f"{LEASES}/tickets"),
        pytest.raises(RlxError, match=rf"{LEASES}/tickets .* 15 s .* \d+ of eve, flock"),
    ):
        ada.launch(plan(ada, "kept-out"))
    site = ada.site("ada@h1")
    with running(host, EVE, HOLD % f"{LEASES}/devices/cpu.0"):
        (waiting,) = ada.launch(plan(ada, "waiting"))
        ada.reaches(waiting, RunState.QUEUED)
        (foreign,) = ada.client.call(lambda: query_leases(site.place, site.leases)).foreign
        assert host.processes()[foreign.pid] == "flock"
    assert ada.ended(waiting).state is RunState.FINISHED


def test_folders_in_which_others_can_remove_a_claim_are_refused(host: Host, rig: Rig, tmp_path: Path) -> None:
    ada = Laptop(rig.client, tmp_path / "home")
    for script, complaint in {
        f"mkdir -m 777 {LEASES}": "lets anybody remove the claims of others: eve may chmod 1777 it",
        f"chmod 1777 {LEASES}; mkdir -m 1777 /tmp/mine; ln -s /tmp/mine {LEASES}/tickets": "is a link, made by eve",
    }.items():
        eve_does(host, script)
        with pytest.raises(RlxError, match=complaint):
            ada.launch(plan(ada, "kept-out"))
    assert not list(host.path("/tmp/mine").iterdir())


def test_the_folder_that_an_administrator_makes_serves_both(host: Host, rig: Rig, tmp_path: Path) -> None:
    host.run("sh", "-c", f"mkdir -p {LEASES}/tickets {LEASES}/devices && chmod 1777 {LEASES} {LEASES}/*")
    ada, eve = Laptop(rig.client, tmp_path / "ada"), Laptop(rig.client, tmp_path / "eve")
    go = toy(eve.site("eve@h1"), "while [ ! -e $HOME/go ]; do sleep 0.1; done\n")
    (first,) = eve.launch(go)
    (second,) = ada.launch(plan(ada, "after"))
    assert ada.reaches(second, RunState.QUEUED).queued_behind == 1
    eve_does(host, f"rm -f {LEASES}/tickets/* 2>/dev/null; touch ~/go || touch /home/eve/go")
    patiently(lambda: eve.see(first).state.is_terminal, "hers ends")
    assert ada.ended(second).state is RunState.FINISHED
