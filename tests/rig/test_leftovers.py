"""A rig leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.rig import Rig
from tests.rig.machine import REPOSITORY


def traces(folder: Path) -> list[str]:
    """All that a rig may leave: files, control groups, mounts, and processes that name its folder or see its mounts."""
    # Groups of other tests go while one looks: os.walk passes over these, and glob fails.
    groups = (Path(at) / name for at, names, _ in os.walk("/sys/fs/cgroup") for name in names if name == folder.name)
    found = [str(path) for path in (folder, *groups) if path.exists()]
    found += [
        line for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines() if folder.name in line
    ]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            # Other tests have arguments that are no text.
            seen = (process / "cmdline").read_bytes() + (process / "mountinfo").read_bytes()
            if folder.name.encode() in seen:
                found.append(f"{process.name}: {(process / 'comm').read_text(encoding='utf-8')}")
        except OSError:
            continue
    return found


@pytest.fixture
def busy_rig(docker_rig: Rig) -> Rig:
    docker_rig.hosts[0].docker.container("rl").run("sh", "-c", "sleep 1000 >/dev/null 2>&1 &")
    master = ("-o", "ControlPath=/run/%h", "-o", "ControlMaster=auto", "-o", "ControlPersist=yes")
    docker_rig.client.run("ssh", *master, "h1", "true")
    return docker_rig


def test_nothing_is_left_behind(busy_rig: Rig) -> None:
    assert traces(busy_rig.folder)
    interfaces = Path("/proc/net/dev").read_text(encoding="utf-8").count(":")
    busy_rig.close()
    assert traces(busy_rig.folder) == []
    assert Path("/proc/net/dev").read_text(encoding="utf-8").count(":") == interfaces


def test_nothing_is_left_behind_when_the_owner_is_killed(rig: Rig) -> None:
    script = """
import sys, time
from tests.rig import Rig
rig = Rig(1)
rig.client.popen("ssh", "-N", "h1")
print(rig.folder, flush=True)
time.sleep(1000)
"""
    owner = subprocess.Popen(
        [sys.executable, "-c", script], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    assert owner.stdout
    folder = Path(owner.stdout.readline().strip())
    assert traces(folder)
    os.kill(owner.pid, signal.SIGKILL)
    owner.communicate()
    deadline = time.monotonic() + 30
    while left := traces(folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
