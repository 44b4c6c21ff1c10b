"""A window over runs in a real tmux."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rlx.hosts import tmux_socket
from tests.cli.support import rlx
from tests.runs.toys import FOREVER, ended, home, see, start, toy_plan, until

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


def tmux(socket: str, *arguments: str) -> str:
    done = subprocess.run(
        ["tmux", "-L", socket, *arguments], capture_output=True, text=True, check=False, encoding="utf-8"
    )
    return done.stdout


@pytest.fixture
def socket() -> Iterator[str]:
    yield f"{tmux_socket()}-watch"
    tmux(f"{tmux_socket()}-watch", "kill-server")


def shown(socket: str, window: str) -> list[str]:
    """What each pane of the window shows."""
    panes = tmux(socket, "list-panes", "-t", f"={window}:", "-F", "#{pane_id}").split()
    return [tmux(socket, "capture-pane", "-p", "-t", pane) for pane in panes]


def two_arms() -> None:
    runs = start(toy_plan("echo words-of-baseline", arm="baseline"), toy_plan("echo words-of-aqn", arm="aqn"))
    for ref in runs:
        ended(ref)


def test_status_and_logs_side_by_side(socket: str) -> None:
    two_arms()
    done = rlx("watch")
    window = done.stdout.strip()
    assert f"tmux -L {socket} attach-session -t ={window}" in done.stderr
    until(lambda: len(shown(socket, window)) == 3, "three panes are open")
    until(lambda: "VERDICT" in shown(socket, window)[0], "the status is there")
    until(lambda: "words-of-baseline" in shown(socket, window)[1], "one log is there")
    until(lambda: "words-of-aqn" in shown(socket, window)[2], "and the other")
    # Typed again it takes the place of the one before.
    assert rlx("watch").stdout.strip() == window
    assert tmux(socket, "list-sessions").count("\n") == 1


def test_inside_tmux_it_is_a_window_there(socket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    two_arms()
    tmux(socket, "new-session", "-d", "-s", "mine", "sleep 300")
    where, number = tmux(socket, "display-message", "-p", "-t", "mine", "#{socket_path} #{session_id}").split()
    monkeypatch.setenv("TMUX", f"{where},1,{number.removeprefix('$')}")
    window = rlx("watch", "aqn").stdout.strip()
    assert tmux(socket, "list-windows", "-t", "mine", "-F", "#{window_name}").split()[-1] == window
    until(lambda: len(shown(socket, "mine")) == 2, "status and one log")


@pytest.mark.parametrize("gone", ["/nowhere/tmux-0/default,1,0", "{socket},1,99", "{socket}", "nonsense"])
def test_a_tmux_that_is_gone_is_none(socket: str, monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    """A shell keeps $TMUX, whatever became of the server."""
    two_arms()
    tmux(socket, "new-session", "-d", "-s", "mine", "sleep 300")
    where = tmux(socket, "display-message", "-p", "-t", "mine", "#{socket_path}").strip()
    monkeypatch.setenv("TMUX", gone.format(socket=where))
    assert "attach-session" in rlx("watch").stderr


def test_a_name_that_tmux_does_not_allow(socket: str) -> None:
    (ref,) = start(toy_plan("echo up"))
    ended(ref)
    with closing(sqlite3.connect(home() / "index.db")) as index, index:
        index.execute("UPDATE runs SET launch_id = 'v1.2:a'")
    assert rlx("watch", ref.run_id).stdout.strip() == "rlx-v1_2_a"


def test_closing_it_ends_no_run(socket: str) -> None:
    (ref,) = start(toy_plan(f"echo up; {FOREVER}"))
    rlx("watch", ref.run_id)
    tmux(socket, "kill-server")
    assert not see(ref).state.is_terminal


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    two_arms()
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "bash", "grep", "sed", "awk", "cat"):
        (programs / name).symlink_to(shutil.which(name) or "")
    with monkeypatch.context() as without_tmux:
        without_tmux.setenv("PATH", str(programs))
        assert "rlx status -w" in rlx("watch", code=1).stderr
    assert "no run" in rlx("watch", "nobody", code=12).stderr
