"""The command line over runs on another machine, whose network comes and goes."""

from __future__ import annotations

import grp
import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.model import RunState
from rlx.runs import RunRef
from tests.cli.support import rlx
from tests.cli.terminal import detached
from tests.loopback import Loopback, loopback
from tests.runs.far import Far, far
from tests.runs.toys import FOREVER, ended, reaches, see, start, start_one, until

__all__ = ["Loopback", "far", "loopback"]

STEP = "echo '(TaskRunner pid=7) step:1 - timing_s/step:0.5 - critic/score/mean:0.25'"
# A process takes over the peak of the one that started it, so a small one must start it.
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""
UNTIL_ENOUGH = "echo up; until [ -e enough ]; do sleep 0.1; done"


def rows(*arguments: str) -> dict[str, dict[str, Any]]:
    return {run["arm"]: run for run in json.loads(rlx("status", "--json", *arguments).stdout)["runs"]}


def started(far: Far, script: str, arm: str = "main") -> RunRef:
    (ref,) = start(far.plan(f"echo up\n{script}", arm=arm))
    until(lambda: "up" in far.log(ref), "it runs")
    until(lambda: see(ref).leader_live, "its leader has reported")
    return ref


@pytest.mark.contract
def test_a_second_laptop_sees_runs_by_asking_the_host(
    far: Far, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (ref,) = start(far.plan(f"echo up; {STEP}", arm="main"))
    ended(ref)
    monkeypatch.setenv("RLX_HOME", str(tmp_path / "second laptop"))
    assert rows() == {}
    run = rows("--host", "ssh://loop")["main"]
    assert (run["run_id"], run["state"], run["steps_done"]) == (ref.run_id, "finished", 1)
    assert (run["host"], run["run_dir"]) == ("ssh://loop", f"~/rlx/runs/{ref.run_id}")
    assert run["submitted_by"]["machine"] == os.uname().nodename
    shown = rlx("status", "-v").stdout
    assert f"@{os.uname().nodename}" in shown
    assert "ssh://loop" in shown.splitlines()[0]
    assert rlx("logs", "--grep", "step:").stdout.count("step:1") == 1


def test_status_of_a_dead_host_is_an_answer_with_what_was_last_known(far: Far) -> None:
    started(far, FOREVER, "away")
    assert rows()["away"]["state"] == "starting"
    near = start_one(FOREVER)
    far.go_down()
    seen = rows()
    assert (seen["away"]["state"], seen["away"]["last_known"]) == ("unreachable", "starting")
    assert seen["away"]["unreachable_since"] is not None
    assert seen["main"]["run_id"] == near.run_id and seen["main"]["state"] == "starting"
    done = rlx("status")
    assert "unreachable" in done.stdout
    assert "ssh://loop: unreachable" in done.stderr and "starting" in done.stderr
    asked = rlx("status", "--host", "ssh://loop")
    assert "ssh://loop" in asked.stderr and "unreachable" in asked.stdout


def test_of_a_dead_host_that_nobody_knows_it_is_not_said_that_it_has_no_runs(far: Far) -> None:
    far.go_down()
    done = rlx("status", "--host", "ssh://loop", code=4)
    assert done.stdout == "" and "ssh://loop" in done.stderr and "  fix: " in done.stderr
    assert done.stderr != rlx("status").stderr, "having no runs is another answer"


def test_what_needs_the_host_is_exit_4_and_does_the_rest(far: Far) -> None:
    away = started(far, FOREVER, "away")
    near = start_one(FOREVER)
    far.go_down()
    for arguments in (["logs", "away"], ["logs", "-f", "away"], ["attach", "away"]):
        code = 1 if arguments[0] == "attach" else 4
        assert "fix:" in rlx(*arguments, code=code).stderr
    logs = rlx("logs", near.run_id, away.run_id, code=4)
    assert "main | up" in logs.stdout and "ssh://loop" in logs.stderr
    stopped = rlx("stop", "away", "main", "--grace", "2", code=4)
    assert near.run_id in stopped.stdout and away.run_id not in stopped.stdout
    assert away.run_id in stopped.stderr and near.run_id not in stopped.stderr
    reaches(near, RunState.STOPPED)


def test_waiting_goes_on_through_an_outage_and_tells_it_once(far: Far) -> None:
    ref = started(far, UNTIL_ENOUGH)
    wait = subprocess.Popen([sys.executable, "-m", "rlx", "wait"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    # Between these lines stands what each run does, where nothing else was said for a while.
    until(lambda: b"waiting:" in wait.stderr.readline(), "it waits")  # type: ignore[union-attr]
    far.go_down()
    outage = b"rlx: ssh://loop: unreachable"
    until(lambda: outage in wait.stderr.readline(), "the outage is told")  # type: ignore[union-attr]
    (far.folder(ref) / "enough").touch()
    far.loopback.start()
    out, err = wait.communicate(timeout=60)
    assert b"finished" in out
    assert b"rlx: ssh://loop" in err, "it answers again"
    assert err.count(outage) == 0, "told a second time"


def test_watching_goes_on_through_an_outage(far: Far) -> None:
    ref = started(far, UNTIL_ENOUGH)
    watch = subprocess.Popen(
        [sys.executable, "-m", "rlx", "status", "-w"], stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    assert watch.stdout is not None
    until(lambda: "starting" in watch.stdout.readline(), "the run is shown")  # type: ignore[union-attr]
    far.go_down()
    until(lambda: "unreachable" in watch.stdout.readline(), "the outage is shown", seconds=60)  # type: ignore[union-attr]
    (far.folder(ref) / "enough").touch()
    far.loopback.start()
    out, _ = watch.communicate(timeout=60)
    assert "finished" in out.splitlines()[-1]


@pytest.mark.contract
def test_following_shows_the_lines_of_before_and_after_an_outage(far: Far, wording: SnapshotAssertion) -> None:
    ref = started(far, UNTIL_ENOUGH + "; echo after")
    follow = subprocess.Popen(
        [sys.executable, "-m", "rlx", "logs", "-f"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert follow.stdout is not None and follow.stderr is not None
    assert follow.stdout.readline() == "up\n"
    far.loopback.cut()
    assert "ssh://loop" in follow.stderr.readline()
    (far.folder(ref) / "enough").touch()
    # Not `communicate`, which passes over what the first read left in the buffer.
    assert follow.stdout.read() == "up\nafter\n"
    _, err = follow.communicate(timeout=60)
    assert follow.returncode == 0
    assert err.splitlines()[-1] == wording


def test_ctrl_c_leaves_a_remote_follow_at_once_and_no_reader_behind(far: Far) -> None:
    ref = started(far, FOREVER)
    follow = subprocess.Popen(
        ["env", "--default-signal=INT", sys.executable, "-m", "rlx", "logs", "-f"], stdout=subprocess.PIPE
    )
    assert follow.stdout is not None and follow.stdout.readline() == b"up\n"
    assert readers(far)
    follow.send_signal(signal.SIGINT)
    follow.communicate(timeout=60)
    assert follow.returncode == 130
    until(lambda: not readers(far), "the reader on the host is gone")
    assert see(ref).leader_live


def readers(far: Far) -> list[str]:
    """Processes of logs.sh on this host: those whose home it is."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            ours = f"HOME={far.loopback.home}".encode() in (folder / "environ").read_bytes().split(b"\0")
            if ours and b"rlx-logs" in (folder / "cmdline").read_bytes():
                found.append(folder.name)
    return found


def test_fixed_strings_are_no_regular_expressions(far: Far) -> None:
    (ref,) = start(far.plan("echo 'a.b (c'; echo axb"))
    ended(ref)
    assert rlx("logs", "-F", "--grep", "a.b (").stdout == "a.b (c\n"
    assert rlx("logs", "--grep", "a.b").stdout == "a.b (c\naxb\n"
    assert "rlx logs -F --grep" in rlx("logs", "-F", code=2).stderr


@pytest.mark.parametrize("arguments", [("logs",), ("logs", "-f"), ("logs", "-n", "2"), ("logs", "--grep", "last|x")])
def test_a_line_of_hundreds_of_megabytes_needs_little_memory_here(far: Far, arguments: tuple[str, ...]) -> None:
    (ref,) = start(far.plan("true"))
    ended(ref)
    log = far.folder(ref) / "attempts" / "1" / "log"
    with log.open("wb") as file:
        file.seek(300_000_000)
        file.write(b"x\nlast\n")
    shown = subprocess.run(
        [sys.executable, "-c", PEAK, sys.executable, "-m", "rlx", *arguments], capture_output=True, check=True
    )
    first, *others = shown.stdout.splitlines()
    assert others == [b"last"]
    assert first.endswith(b"more bytes of this line]")
    assert int(shown.stderr) < 120_000, f"{shown.stderr!r} kB"


def gives_terminals() -> bool:
    """Whether an sshd of this user can open a terminal: it must belong to the group tty, and only root may give it."""
    if os.geteuid() == 0:
        return True
    ends = pty.openpty()
    group = os.fstat(ends[1]).st_gid
    for end in ends:
        os.close(end)
    return group == grp.getgrnam("tty").gr_gid


@pytest.mark.skipif(not gives_terminals(), reason="terminals have no group tty here: sshd opens one for root only")
def test_attach_shows_the_session_of_another_machine(far: Far) -> None:
    ref = started(far, FOREVER)
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-m", "rlx", "attach"])
    shown = b""
    while b"up" not in shown:
        shown += os.read(terminal, 4096)
    assert detached(terminal, pid) == 0
    assert see(ref).leader_live
