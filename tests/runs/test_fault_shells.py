"""Hosts and containers whose sh is busybox, and which have no tmux: every command works all the same.

The sh of all other tests here is that of this machine, dash on Debian.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rlx.model import RunState
from tests.rig import Rig
from tests.runs.laptop import GO, Laptop, go, log, patiently, toy
from tests.runs.toys import FOREVER

ESCAPES = "(setsid bash -c 'trap \"\" TERM; echo escaped; while :; do sleep 0.2; done' &)\n" + FOREVER


@pytest.mark.parametrize("shared", [True, False], ids=["shared folder", "in the container itself"])
def test_every_command_with_busybox_and_without_tmux(docker_rig: Rig, tmp_path: Path, shared: bool) -> None:
    host = docker_rig.host("h1")
    host.remove_program("tmux")
    host.replace_program("sh", "busybox")
    container = host.docker.container("rl", {"/srv": "/data"} if shared else {}, python=True)
    laptop = Laptop(docker_rig.client, tmp_path / "home")
    site = laptop.site("h1", "rl")
    plan = toy(site, 'sh --help 2>&1 | head -n 1; echo "secret ${#TOKEN}"\n' + GO + "exit 3\n", secrets=("TOKEN",))
    first, second = laptop.launch(plan, toy(site, ESCAPES, arm="second"), secrets={"TOKEN": "it's $x"})
    assert laptop.reaches(second, RunState.QUEUED).queued_behind == 1
    patiently(lambda: "secret 7" in laptop.rlx("logs", "main").out, "the first runs")
    assert "BusyBox" in laptop.rlx("logs", "main").out
    with laptop.start_rlx("logs", "-f", "--grep", "secret", "main", stdout=subprocess.PIPE) as follow:
        assert follow.stdout is not None and follow.stdout.readline() == b"secret 7\n"
        container.run("touch", f"{site.container_root or '/root/rlx'}/runs/{first.run_id}/go")
        assert follow.stdout.read() == b""
    assert follow.returncode == 0
    assert laptop.ended(first).exit_code == 3
    patiently(lambda: "escaped" in laptop.rlx("logs", "second").out, "all of the second runs")
    result = laptop.stop(second)
    assert len(result.ended) >= 3 and not result.left
    assert laptop.see(second).state is RunState.STOPPED
    rows = laptop.rows("--host", "h1") if shared else laptop.rows("--all")
    assert {arm: row["state"] for arm, row in rows.items()} == {"main": "failed", "second": "stopped"}
    assert "secret 7" in laptop.rlx("logs", "-n", "1", "main").out
    assert laptop.rlx("pull", "main").code == 0
    assert laptop.rlx("doctor", "h1", "--container", "rl").code in (0, 5)


def test_a_bare_host_with_busybox_and_no_tmux(rig: Rig, tmp_path: Path) -> None:
    host = rig.host("h1")
    host.remove_program("tmux")
    host.replace_program("sh", "busybox")
    laptop = Laptop(rig.client, tmp_path / "home")
    ref = laptop.start(host, toy(laptop.site("h1"), GO + "exit 3\n"))
    (waiting,) = laptop.launch(toy(laptop.site("h1"), FOREVER, arm="waiting"))
    laptop.reaches(waiting, RunState.QUEUED)
    host.break_connections()
    assert laptop.see(ref).leader_live
    attach = laptop.rlx("attach", "main")
    assert attach.code != 0 and "rlx logs -f" in attach.err, attach
    go(host, ref)
    assert laptop.ended(ref).exit_code == 3
    patiently(lambda: laptop.see(waiting).leader_live, "the next one starts")
    assert not laptop.stop(waiting).left
    assert log(host, ref) == "up\n"
