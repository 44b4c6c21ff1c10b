"""This machine as a host: commands end as they end, and see nothing of the caller's shell."""

from __future__ import annotations

import os
import pwd
import time
from pathlib import Path

import pytest

from rlx.errors import UsageError
from rlx.hosts import LocalTransport, local_site, site_of, tmux_socket
from rlx.hosts.host_errors import TimedOut
from rlx.model import Cmd

MACHINE = LocalTransport()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 60
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


def test_a_command_is_its_output_its_complaints_and_its_exit() -> None:
    completed = MACHINE.run(Cmd("sh", "-c", "cat; echo oops >&2; exit 3"), stdin=b"a\0b\xff", timeout_s=10)
    assert (completed.code, completed.out, completed.err) == (3, b"a\0b\xff", b"oops\n")
    assert MACHINE.run(Cmd("sh", "-c", "kill -s KILL $$"), timeout_s=10).code == 137


def test_input_that_nobody_reads_is_no_error() -> None:
    assert MACHINE.run(Cmd("true"), stdin=b"x" * 1_000_000, timeout_s=10).code == 0


def test_the_environment_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "s3cret")
    monkeypatch.setenv("RLX_RUN", "a-run-that-rlx-was-called-from")
    monkeypatch.setenv("LC_MESSAGES", "C")
    lines = MACHINE.run(Cmd("env"), timeout_s=10).out.decode().splitlines()
    names = {line.partition("=")[0] for line in lines}
    # Python itself sets LC_CTYPE where the user has no locale (PEP 538).
    locale = {"LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES"}
    assert names <= {"HOME", "USER", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TERM", *locale}
    assert {"HOME", "PATH", "LC_MESSAGES"} <= names


def test_home_is_that_of_the_account_where_nobody_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    shown = MACHINE.run(Cmd("sh", "-c", 'printf %s "$HOME"'), timeout_s=10).out.decode()
    assert shown == pwd.getpwuid(os.getuid()).pw_dir


def test_a_command_that_takes_too_long_ends_with_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"sleep 1000 & echo $! >{pid_file}; wait"
    with pytest.raises(TimedOut, match=r"\b3 s\b"):
        MACHINE.run(Cmd("sh", "-c", script), timeout_s=3)
    wait_until_gone(int(pid_file.read_text(encoding="utf-8")))


def test_a_program_that_is_not_there_is_named() -> None:
    completed = MACHINE.run(Cmd("no-such-program"), timeout_s=10)
    assert completed.code == 127
    assert b"no-such-program" in completed.err


def test_a_stream_comes_as_it_is_written_and_ends_when_it_is_left() -> None:
    with MACHINE.stream(Cmd("sh", "-c", "echo $$; while :; do sleep 0.05; echo more; done")) as chunks:
        pid = int(next(chunks).split()[0])
        assert b"more" in next(chunks)
        assert is_running(pid)
    wait_until_gone(pid)


def test_a_stream_that_ends_is_read_to_its_end() -> None:
    with MACHINE.stream(Cmd("sh", "-c", "head -c 300000 /dev/zero; exit 1")) as chunks:
        assert sum(map(len, chunks)) == 300_000


def test_the_host_is_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert local_site().root == os.environ["RLX_ROOT"]
    assert local_site().leases == os.environ["RLX_LEASES"]
    assert tmux_socket() == os.environ["RLX_TMUX_SOCKET"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLX_ROOT", "relative")
    assert local_site().root == str(tmp_path / "relative")
    for variable in ("RLX_ROOT", "RLX_LEASES", "RLX_TMUX_SOCKET"):
        monkeypatch.delenv(variable)
    assert (local_site().root, local_site().leases, tmux_socket()) == ("~/rlx", "/var/tmp/rlx-leases", "rlx")
    with pytest.raises(UsageError, match="npu-7") as caught:
        site_of("npu-7")
    assert "local" in caught.value.hint
