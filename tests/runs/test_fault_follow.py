"""A follow of a run in a container, through all that can happen to a connection: every line once, in order."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from syrupy.assertion import SnapshotAssertion

from tests.rig import Client, Container, Rig
from tests.runs.laptop import Laptop, go, log, patiently, toy

CHATTER = """\
i=0
while [ ! -e $RLX_RUN_DIR/go ]; do
    i=$((i + 1))
    echo "line $i"
    sleep 0.02
done
printf "the end"
"""


def test_a_follow_through_everything(
    docker_rig: Rig, container: Container, tmp_path: Path, wording: SnapshotAssertion
) -> None:
    host = docker_rig.host("h1")
    laptop = Laptop(docker_rig.client, tmp_path / "home")
    ref = laptop.start(host, toy(laptop.site("h1", "rl"), CHATTER))
    shown, told = tmp_path / "shown", tmp_path / "told"
    with shown.open("wb") as out, told.open("wb") as err:
        follow = laptop.start_rlx("logs", "-f", stdout=out, stderr=err)

    def grows() -> None:
        before = shown.stat().st_size
        patiently(lambda: shown.stat().st_size > before, f"more lines come; told: {told.read_text(encoding='utf-8')}")

    def notices() -> int:
        """One when the connection is lost, and one when the host answers again."""
        return len(told.read_text(encoding="utf-8").splitlines())

    def short_cut() -> None:
        host.cut()
        time.sleep(1)
        host.heal()

    for harmless in (short_cut, host.restart_sshd):
        grows()
        harmless()
        grows()
    assert notices() == 0
    for number in range(4):
        grows()
        if number % 2:
            kill_all_ssh(docker_rig.client)
        else:
            host.break_connections()
        patiently(lambda number=number: notices() > 2 * number, "the cut is noticed")  # type: ignore[misc]
    grows()
    host.stop_sshd()
    patiently(lambda: notices() == 9, "the outage is told once")
    time.sleep(2)
    assert notices() == 9
    go(host, ref)
    host.start_sshd()
    assert follow.wait(timeout=120) == 0
    assert shown.read_text(encoding="utf-8") == log(host, ref) + "\n"
    assert notices() == 10
    (back,) = set(told.read_text(encoding="utf-8").splitlines()[1::2])
    assert back == wording


def kill_all_ssh(client: Client) -> None:
    """The master of the shared connection too; none that is started in its place, since that is an outage more."""
    found = []
    for process in list(Path("/proc").glob("[0-9]*")):
        with suppress(OSError):
            if client.owns(process) and (process / "comm").read_text(encoding="utf-8") == "ssh\n":
                found.append(int(process.name))
    # All found first: looking takes its time, in which the follow could come back over a master that is killed later.
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
