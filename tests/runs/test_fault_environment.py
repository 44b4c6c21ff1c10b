"""An environment of 64 kB and more reaches a run in a container whole, and nothing that others can read has it."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rlx.errors import UsageError
from tests.rig import Container, Host, Rig
from tests.runs.laptop import GO, Laptop, go, log, patiently, run_folder, toy

MARK = "hunter2-91c4"
BIG = MARK + "x'y\"$z `w` \\ \n" * 4000 + MARK
MANY = {f"S_{n}": f"{MARK}-{n}-" + "v" * 1000 for n in range(200)}


@pytest.fixture
def laptop(docker_rig: Rig, tmp_path: Path) -> Laptop:
    return Laptop(docker_rig.client, tmp_path / "home")


@pytest.fixture
def host(docker_rig: Rig, container: Container) -> Host:
    return docker_rig.host("h1")


@contextmanager
def watched_arguments() -> Iterator[list[str]]:
    """Reads the arguments of all processes of all machines over and over, as a curious neighbour would."""
    found: list[str] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    text = path.read_bytes()
                except OSError:
                    continue
                if MARK.encode() in text:
                    found.append(text.decode(errors="replace"))
            done.wait(0.005)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def files_with_the_mark(*folders: Path) -> list[str]:
    found = []
    for folder in folders:
        for path in folder.rglob("*"):
            try:
                if path.is_file() and not path.is_symlink() and MARK.encode() in path.read_bytes():
                    found.append(path.name)
            except OSError:  # gone meanwhile
                continue
    return found


def test_a_large_environment_full_of_secrets(host: Host, laptop: Laptop, container: Container) -> None:
    assert len(BIG) > 50_000
    names = ("BIG", *MANY)
    script = 'printf %s "$BIG" | sha256sum; env | grep -c "^S_"; printf %s "$S_199" | sha256sum\n' + GO
    site = laptop.site("h1", "rl")
    plans = [toy(site, script, arm=arm, secrets=names) for arm in ("main", "waiting")]
    with watched_arguments() as seen:
        ref, waiting = laptop.launch(*plans, secrets={"BIG": BIG, **MANY})
        patiently(lambda: len(log(host, ref).splitlines()) == 4, "the script runs")
        laptop.rlx("status")
    lines = log(host, ref).splitlines()
    assert lines[1].split()[0] == hashlib.sha256(BIG.encode()).hexdigest()
    assert lines[2] == "200"
    assert lines[3].split()[0] == hashlib.sha256(MANY["S_199"].encode()).hexdigest()
    assert seen == []
    # Of the run that waits there is one file, for this user only; of the other one nothing.
    env = run_folder(host, waiting) / "env"
    assert env.stat().st_mode & 0o777 == 0o600
    there = [host.path(folder) for folder in ("/srv", "/var/tmp", "/run/docker-data/containers")]
    there += host.path("/tmp").glob("rlx-*")
    assert files_with_the_mark(*there, laptop.home) == ["env"]
    socket = os.environ["RLX_TMUX_SOCKET"]
    for command in (
        ("docker", "inspect", container.id),
        ("docker", "logs", container.id),
        ("tmux", "-L", socket, "show-environment", "-g"),
        ("sh", "-c", f"for s in $(tmux -L {socket} ls -F '#S'); do tmux -L {socket} capture-pane -p -S - -t $s; done"),
    ):
        done = host.run(*command)
        assert MARK.encode() not in done.stdout + done.stderr, command
    for run in (ref, waiting):
        go(host, run)
        assert laptop.ended(run).exit_code == 0
    assert files_with_the_mark(*there, laptop.home) == []


def test_a_secret_that_no_environment_can_hold(host: Host, laptop: Laptop) -> None:
    """The kernel takes 128 kB for one variable."""
    plan = toy(laptop.site("h1", "rl"), 'echo "${#HUGE} there"\n', secrets=("HUGE",))
    with pytest.raises(UsageError, match=r"HUGE .*120 kB"):
        laptop.launch(plan, secrets={"HUGE": "x" * 130_000})
    assert laptop.runs() == ()
    (ref,) = laptop.launch(plan, secrets={"HUGE": "x" * 120_000})
    assert laptop.ended(ref).exit_code == 0
    assert "120000 there" in log(host, ref)
