"""OpenSSH against a real sshd: what goes wrong has a name and a way out, and nothing else of ssh shows."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.errors import ExitCode, RlxError, UsageError
from rlx.hosts import Completed, connect, open_ahead, transport_for
from rlx.hosts.host_errors import (
    AccessDenied,
    ConnectionLost,
    HostError,
    HostKeyChanged,
    HostKeyUnknown,
    TimedOut,
    ToolMissing,
    Unreachable,
)
from rlx.model import Cmd, Place, Secret
from tests.devices import put_program
from tests.loopback import Loopback, loopback

__all__ = ["loopback"]

COMMAND = Cmd("echo", "hello", Secret("hunter2"))
GO = "until [ -e ~/go ]; do sleep 0.1; done"


def refused(host: Loopback, place: Place | None = None) -> HostError:
    with pytest.raises(HostError) as caught:
        transport_for(place or host.place).run(COMMAND, timeout_s=30)
    error = caught.value
    assert error.message.startswith("loop: ")
    assert "hunter2" not in error.message + error.hint
    # The command is named only where it may have been sent.
    assert ("echo hello ***" in error.message) is error.arrived
    assert error.hint
    assert error.exit_code is ExitCode.UNREACHABLE
    with (
        pytest.raises(type(error)),
        transport_for(place or host.place).stream(COMMAND) as chunks,
    ):
        list(chunks)
    return error


def masters(host: Loopback) -> list[int]:
    """The shared connections of this test's host: the sockets' names begin with the hash of its ssh config."""
    prefix = hashlib.sha256(str(host.config).encode()).hexdigest()[:8]
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (
                f"/{prefix}".encode() in (folder / "cmdline").read_bytes()
                and b"[mux]" in (folder / "cmdline").read_bytes()
            ):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_an_unknown_host_key_is_to_be_confirmed_by_hand(loopback: Loopback) -> None:
    loopback.forget_host_key()
    error = refused(loopback)
    assert isinstance(error, HostKeyUnknown)
    assert not error.arrived
    assert f"ssh -F {loopback.config} loop" in error.hint
    assert loopback.known_hosts.read_text(encoding="utf-8") == ""


def test_a_config_that_accepts_any_key_is_not_followed(loopback: Loopback) -> None:
    loopback.forget_host_key()
    loopback.add_config("StrictHostKeyChecking no")
    assert isinstance(refused(loopback), HostKeyUnknown)


def test_a_changed_host_key_is_refused(loopback: Loopback) -> None:
    loopback.change_host_key()
    error = refused(loopback)
    assert isinstance(error, HostKeyChanged)
    assert not error.arrived
    assert "ssh-keygen" in error.hint
    assert "-R" in error.hint


def test_a_user_who_is_not_let_in_is_told_so(loopback: Loopback) -> None:
    loopback.deny_user()
    error = refused(loopback)
    assert isinstance(error, AccessDenied)
    assert not error.arrived
    assert loopback.user in error.message
    assert "ssh-add" in error.hint


def test_a_wrong_user_is_named(loopback: Loopback) -> None:
    error = refused(loopback, replace(loopback.place, destination="nobody@loop"))
    assert isinstance(error, AccessDenied)
    assert "nobody" in error.message


def test_where_nothing_listens(loopback: Loopback) -> None:
    loopback.stop()
    error = refused(loopback)
    assert isinstance(error, Unreachable)
    assert "Connection refused" in error.message
    assert not error.arrived


def test_a_name_that_is_none(loopback: Loopback, wording: SnapshotAssertion) -> None:
    error = refused(loopback, replace(loopback.place, destination="no-such-host.invalid"))
    assert isinstance(error, Unreachable)
    assert "no-such-host.invalid" in error.message and "command:" not in error.message, "it was not sent"
    assert error.hint == wording


def test_a_server_that_is_no_sshd(loopback: Loopback) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = replace(loopback.place, destination=f"ssh://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(Unreachable):
            transport_for(place).run(COMMAND, timeout_s=30)


def test_a_jump_host_that_is_not_there(loopback: Loopback) -> None:
    loopback.add_config("Host loop\n  ProxyJump 127.0.0.1:1\n")
    assert isinstance(refused(loopback), Unreachable)


def test_a_jump_host_with_an_unknown_key(loopback: Loopback, tmp_path: Path) -> None:
    loopback.add_config(
        f"Host jump\n  HostName 127.0.0.1\n  Port {loopback.port}\n  UserKnownHostsFile /dev/null\n"
        f"  IdentityFile {loopback.identity}\nHost loop\n  ProxyJump jump\n"
    )
    error = refused(loopback)
    # A shared connection keeps what the jump host's ssh says to itself.
    assert isinstance(error, Unreachable)
    assert "jump host" in error.hint
    assert loopback.log().count("Accepted publickey") == 0


def test_a_jump_host_is_used(loopback: Loopback) -> None:
    jump = loopback.config.read_text(encoding="utf-8").replace("Host loop", "Host jump")
    loopback.add_config(f"{jump}\nHost loop\n  ProxyJump jump\n")
    assert transport_for(loopback.place).run(Cmd("echo", "through"), timeout_s=30).out == b"through\n"
    assert loopback.log().count("Accepted publickey") == 2


def test_a_config_that_ssh_cannot_read(loopback: Loopback) -> None:
    loopback.add_config("NoSuchOption yes")
    assert "nosuchoption" in refused(loopback).message.lower()


@pytest.mark.parametrize("destination", ["-oProxyCommand=touch pwned", "-v", "", "a b", "a\nb", "\x1b[0m", "host\t"])
def test_what_ssh_could_take_for_an_option_is_no_destination(destination: str) -> None:
    for via in ("openssh", "paramiko"):
        with pytest.raises(UsageError, match=re.escape(repr(destination))):
            transport_for(Place("bad", destination, via=via))


def test_any_way_to_write_a_destination_works(loopback: Loopback) -> None:
    loopback.add_config(
        f"Host 127.0.0.1\n  IdentityFile {loopback.identity}\n  UserKnownHostsFile {loopback.known_hosts}\n"
    )
    for destination in ("loop", f"{loopback.user}@loop", f"ssh://{loopback.user}@127.0.0.1:{loopback.port}"):
        place = replace(loopback.place, destination=destination)
        assert transport_for(place).run(Cmd("echo", "hi"), timeout_s=30).out == b"hi\n"


def test_no_ssh_program_and_no_other_way(loopback: Loopback, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    transport = transport_for(loopback.place)
    assert transport.run(Cmd("echo", "by paramiko"), timeout_s=30).out == b"by paramiko\n"
    monkeypatch.undo()


def test_ssh_that_vanished_is_missed_by_name(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    transport = transport_for(loopback.place)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="ssh"):
        transport.run(Cmd("true"), timeout_s=30)


@pytest.mark.parametrize(
    "noise", ["echo welcome", "printf no-line-end", "echo complaint >&2", "export API_TOKEN=s3cret"]
)
def test_noise_of_login_scripts_is_kept_out(loopback: Loopback, noise: str) -> None:
    loopback.write_bashrc(noise)
    transport = transport_for(loopback.place)
    completed = transport.run(Cmd("sh", "-c", "echo out; echo err >&2; env | grep -c TOKEN"), timeout_s=30)
    assert (completed.out, completed.err) == (b"out\n0\n", b"err\n")
    with transport.stream(Cmd("echo", "streamed")) as chunks:
        assert b"".join(chunks) == b"streamed\n"


def test_a_login_script_that_ends_the_shell_is_told(loopback: Loopback) -> None:
    loopback.write_bashrc("echo this account is closed >&2; exit 7")
    error = refused(loopback)
    assert isinstance(error, AccessDenied)
    assert "exit 7" in error.message
    assert "this account is closed" in error.message


def test_a_connection_that_breaks_is_no_end(loopback: Loopback) -> None:
    transport = transport_for(loopback.place)
    with transport.stream(Cmd("sh", "-c", "echo begun; sleep 500")) as chunks:
        assert next(chunks) == b"begun\n"
        loopback.cut()
        with pytest.raises(ConnectionLost) as caught:
            next(chunks)
    assert caught.value.arrived
    assert transport.run(Cmd("echo", "again"), timeout_s=30).out == b"again\n"


def test_a_shared_connection_that_was_killed_is_replaced(loopback: Loopback) -> None:
    transport = transport_for(loopback.place)
    for how in (signal.SIGKILL, signal.SIGTERM):
        assert transport.run(Cmd("true"), timeout_s=30).code == 0
        for pid in masters(loopback):
            os.kill(pid, how)
        # One that is about to end would still take a command, and lose it: that is another case.
        wait_until(lambda: not masters(loopback))
        assert transport.run(Cmd("echo", "again"), timeout_s=30).out == b"again\n"


def test_a_shared_connection_is_used_again_and_ends_no_other_command(loopback: Loopback) -> None:
    transport = transport_for(loopback.place)
    with transport.stream(Cmd("sh", "-c", f"echo begun; {GO}; echo still here")) as first:
        next(first)
        with transport.stream(Cmd("sh", "-c", "echo begun; sleep 500")) as second:
            next(second)
        with pytest.raises(TimedOut):
            transport.run(Cmd("sleep", "500"), timeout_s=0.2)
        (loopback.home / "go").touch()
        assert b"".join(first) == b"still here\n"
    assert loopback.log().count("Accepted publickey") == 1


def test_more_sessions_than_sshd_shares_go_by_connections_of_their_own(loopback: Loopback, tmp_path: Path) -> None:
    loopback.limit_sessions(1)
    transport = transport_for(loopback.place)
    connect(loopback.place)
    script, ran = 'echo ran >>"$1"', tmp_path / "ran"
    with transport.stream(Cmd("sh", "-c", "echo begun; sleep 500")) as chunks:
        next(chunks)
        assert transport.run(Cmd("sh", "-c", script, "x", str(ran)), timeout_s=30).code == 0
        with transport.stream(Cmd("echo", "streamed")) as more:
            assert b"".join(more) == b"streamed\n"
    assert (ran.read_text(encoding="utf-8"), logins(loopback)) == ("ran\n", 3)


@pytest.mark.parametrize("when", ["before it begins", "while it runs"])
def test_a_command_that_may_have_arrived_is_not_sent_again(loopback: Loopback, tmp_path: Path, when: str) -> None:
    transport_for(loopback.place).run(Cmd("true"), timeout_s=30)
    wait_until(lambda: masters(loopback))
    (holder,) = masters(loopback)
    script = f"echo ran >>{tmp_path}/ran; kill -9 {holder}"
    if when == "before it begins":
        # It has what was sent for the command.
        loopback.write_bashrc(f"read -r line; {script}")
    with pytest.raises(HostError) as caught:
        transport_for(loopback.place).run(Cmd("sh", "-c", script), timeout_s=30)
    assert caught.value.arrived
    assert (tmp_path / "ran").read_text(encoding="utf-8") == "ran\n"


def test_the_one_who_opened_the_connection_may_leave_first(loopback: Loopback) -> None:
    """Also through a ProxyCommand, which is a child of the ssh that opened it."""
    hop = loopback.config.read_text(encoding="utf-8").replace("Host loop", "Host hop")
    loopback.add_config(f"{hop}\nHost loop\n  ProxyCommand ssh -F {loopback.config} -W %h:%p hop\n")
    transport = transport_for(loopback.place)
    with transport.stream(Cmd("sh", "-c", "echo begun; sleep 500")) as first:
        next(first)
        second = transport.stream(Cmd("sh", "-c", f"echo begun; {GO}; echo still here"))
        chunks = second.__enter__()
        next(chunks)
    (loopback.home / "go").touch()
    assert b"".join(chunks) == b"still here\n"
    second.__exit__(None, None, None)


def test_the_folder_of_the_sockets_is_private(loopback: Loopback) -> None:
    transport_for(loopback.place).run(Cmd("true"), timeout_s=30)
    folder = Path(f"/tmp/rlx-ssh-{os.getuid()}")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(len(os.fsencode(path)) + 17 <= 104 for path in folder.iterdir())


@pytest.mark.parametrize("shell", ["bash --norc", "dash", "busybox sh"])
def test_any_shell_over_there_will_do(loopback: Loopback, shell: str, tmp_path: Path) -> None:
    """The login shell is what the account says; here its start file hands over to another one, as people do."""
    loopback.write_bashrc(f'exec {shell} -c "$BASH_EXECUTION_STRING"')
    transport = transport_for(loopback.place)
    assert transport.run(Cmd("printf", "%s", "it's \\ \n$x"), timeout_s=30).out == b"it's \\ \n$x"


def test_the_callers_secrets_and_locale_are_not_sent(loopback: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    loopback.add_config("SendEnv *")
    monkeypatch.setenv("HF_TOKEN", "s3cret")
    monkeypatch.setenv("LC_ALL", "C")
    transport = transport_for(loopback.place)
    seen = transport.run(Cmd("sh", "-c", "cat /proc/$PPID/environ /proc/self/environ"), timeout_s=30).out
    assert b"s3cret" not in seen
    assert b"LC_ALL" not in seen


def test_many_lines_of_forwarding_and_commands_in_the_config_do_no_harm(loopback: Loopback) -> None:
    loopback.add_config(
        "Host loop\n  RemoteCommand echo taken over\n  RequestTTY yes\n  LocalForward 127.0.0.1:1 127.0.0.1:2\n"
        "  ExitOnForwardFailure yes\n  ForwardAgent yes\n  ControlMaster no\n"
    )
    assert transport_for(loopback.place).run(Cmd("echo", "mine"), timeout_s=30).out == b"mine\n"


def test_no_ssh_stays_behind_a_command(loopback: Loopback) -> None:
    transport = transport_for(loopback.place)
    # By an ssh program, which makes the shared connection: once it has, all of it can be cut.
    with transport.stream(Cmd("sh", "-c", "echo begun; sleep 500")) as chunks:
        next(chunks)
    with pytest.raises(TimedOut):
        transport.run(Cmd("sleep", "500"), timeout_s=1)
    loopback.cut()
    wait_until(lambda: not masters(loopback))
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True, encoding="utf-8"
    ).stdout
    assert str(loopback.config) not in listed


def sessions(host: Loopback) -> list[str]:
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True, encoding="utf-8"
    ).stdout
    return [line for line in listed.splitlines() if line.startswith("ssh -T ") and str(host.config) in line]


def logins(host: Loopback) -> int:
    return host.log().count("Accepted publickey")


def test_a_shell_that_was_opened_ahead_takes_the_next_command(loopback: Loopback) -> None:
    connect(loopback.place)
    open_ahead(loopback.place)
    wait_until(lambda: len(loopback.shells()) == 1)
    (waiting,) = loopback.shells()
    transport = transport_for(loopback.place)
    shell = transport.run(Cmd("sh", "-c", "cat /proc/$PPID/status; echo one"), timeout_s=30).out.decode()
    assert shell.endswith("one\n")
    assert f"\nPPid:\t{waiting}\n" in shell or f"\nPid:\t{waiting}\n" in shell
    wait_until(lambda: not loopback.shells())
    assert transport.run(Cmd("echo", "two"), timeout_s=30).out == b"two\n"
    assert logins(loopback) == 1


def test_a_shell_that_died_while_it_waited_is_no_loss(loopback: Loopback) -> None:
    connect(loopback.place)
    open_ahead(loopback.place)
    wait_until(lambda: len(loopback.shells()) == 1)
    loopback.cut()
    # Until the ssh here has noticed, nobody can know whether a command still arrives, and none is sent twice.
    wait_until(lambda: not masters(loopback) and not sessions(loopback))
    assert transport_for(loopback.place).run(Cmd("echo", "still"), timeout_s=30).out == b"still\n"


def test_an_unused_shell_ends_with_rlx(loopback: Loopback) -> None:
    script = (
        "from rlx.hosts import connect, open_ahead\nfrom rlx.model import Place\n"
        "connect(Place('loop', 'loop'))\nopen_ahead(Place('loop', 'loop'))\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert logins(loopback) == 1
    assert not sessions(loopback)


def test_what_keeps_from_connecting_is_told(loopback: Loopback) -> None:
    loopback.change_host_key()
    with pytest.raises(HostKeyChanged):
        connect(loopback.place)


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "open folder"])
def test_what_others_put_where_the_sockets_belong_is_refused(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    nobody = 10**9 + os.getpid()
    folder = Path("/tmp") / f"rlx-ssh-{nobody}"
    monkeypatch.setattr(os, "getuid", lambda: nobody)
    try:
        if kind == "file":
            folder.touch()
        elif kind == "open folder":
            folder.mkdir(mode=0o755)
        else:
            folder.symlink_to(tmp_path if kind == "link" else tmp_path / "nowhere")
        with pytest.raises(RlxError, match=str(folder)):
            transport_for(loopback.place).run(COMMAND, timeout_s=30)
    finally:
        folder.rmdir() if folder.is_dir() and not folder.is_symlink() else folder.unlink()


def test_an_ipv6_address_in_a_url(loopback: Loopback) -> None:
    """ssh reads no such URL itself. Nothing listens there: that ssh tried shows in what it says."""
    error = refused(loopback, Place("loop", f"ssh://me@[::1]:{loopback.port}"))
    assert isinstance(error, Unreachable)
    assert f"::1 port {loopback.port}" in error.message


def test_a_server_that_says_hello_and_nothing_more(loopback: Loopback) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"SSH-2.0-mute\r\n")
                # Until the client gives up.
                while connection.recv(4096):
                    pass

        thread = threading.Thread(target=greet)
        thread.start()
        place = Place("loop", f"ssh://me@127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(Unreachable, match="stopped answering"):
            transport_for(place).run(COMMAND, timeout_s=60)
        thread.join()


@pytest.mark.parametrize(
    "line", ["SessionType none", "SessionType subsystem", "StdinNull yes", "ForkAfterAuthentication yes"]
)
def test_what_the_config_says_of_sessions_does_not_hold_for_those_of_rlx(loopback: Loopback, line: str) -> None:
    loopback.add_config(f"Host loop\n  {line}\n")
    transport = transport_for(loopback.place)
    assert transport.run(Cmd("cat"), stdin=b"all of it", timeout_s=30).out == b"all of it"
    with transport.stream(Cmd("echo", "streamed")) as chunks:
        assert b"".join(chunks) == b"streamed\n"
    connect(loopback.place)


def test_options_that_an_old_ssh_does_not_know_are_not_given_to_it(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = shutil.which("ssh")
    refuse = (
        'for word; do case $word in SessionType=*|StdinNull=*|ForkAfter*) echo "Bad option" >&2; exit 255; esac; done'
    )
    version = '[ "$*" != -V ] || { echo "OpenSSH_7.4p1, OpenSSL 1.0.2k-fips" >&2; exit; }'
    put_program(tmp_path, "ssh", f'{version}\n{refuse}\nexec {real} "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert transport_for(loopback.place).run(Cmd("echo", "hi"), timeout_s=30).out == b"hi\n"


def test_a_shared_connection_that_hangs_costs_seconds_and_is_named(
    loopback: Loopback, wording: SnapshotAssertion
) -> None:
    transport = transport_for(loopback.place)
    assert transport.run(Cmd("true"), timeout_s=30).code == 0
    stopped = masters(loopback)
    assert stopped
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        with pytest.raises(Unreachable, match=r"loop: ") as caught:
            connect(loopback.place)
        assert not caught.value.arrived and caught.value.message == wording
        assert f"/tmp/rlx-ssh-{os.getuid()}" in caught.value.hint
        assert time.monotonic() - begun < 20
        # A command has its own time first, and nobody knows whether it arrived.
        with pytest.raises(TimedOut) as timed_out:
            transport.run(Cmd("echo", "hello"), timeout_s=1)
        assert timed_out.value.message == wording
        with pytest.raises(TimedOut) as timed_out, transport.stream(Cmd("echo", "hello")) as chunks:
            list(chunks)
        assert timed_out.value.message == wording
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert transport.run(Cmd("echo", "again"), timeout_s=30).out == b"again\n"


def test_a_stream_that_has_begun_may_be_quiet_for_as_long_as_it_likes(loopback: Loopback) -> None:
    with transport_for(loopback.place).stream(Cmd("sh", "-c", "echo begun; sleep 22; echo late")) as chunks:
        assert b"".join(chunks) == b"begun\nlate\n"


@pytest.mark.parametrize("via", ["openssh", "paramiko"])
@pytest.mark.parametrize("eater", ["read -r line", "head -c 100 >/dev/null", "timeout 0.5 cat >/dev/null"])
def test_a_login_script_that_eats_what_it_was_not_sent_costs_seconds(loopback: Loopback, eater: str, via: str) -> None:
    loopback.write_bashrc(f"{eater}\necho welcome\n")
    transport = transport_for(loopback.place_via(via))
    lines = b"".join(b"%d\n" % number for number in range(20_000))
    assert transport.run(Cmd("sh", "-c", "cat; echo ran >&2"), stdin=lines, timeout_s=30) == Completed(
        0, lines, b"ran\n"
    )
    with transport.stream(Cmd("echo", "streamed")) as chunks:
        assert b"".join(chunks) == b"streamed\n"


def test_a_command_runs_once_though_all_was_sent_again(loopback: Loopback, tmp_path: Path) -> None:
    """The host is so slow that the command begins when it has been given up."""
    slow = 'case $PWD in *) sh() { printf "rlx-ready\\n"; sleep 3; command sh "$@"; } ;; esac'
    loopback.write_bashrc(slow + '\nexec() { "$@"; }\n')
    done = transport_for(loopback.place).run(
        Cmd("sh", "-c", 'echo once >>"$1"; cat', "x", str(tmp_path / "ran")), stdin=b"data\n", timeout_s=30
    )
    assert (done.out, (tmp_path / "ran").read_text(encoding="utf-8")) == (b"data\n", "once\n")


def a_place(host: Loopback) -> socket.socket:
    """Take the only place for whoever logs in, as soon as it is free: sshd greets nobody else."""
    while True:
        taken = socket.create_connection(("127.0.0.1", host.port))
        if taken.recv(100).startswith(b"SSH-"):
            return taken
        taken.close()
        time.sleep(0.02)


def test_a_host_that_turns_away_is_asked_once_more(loopback: Loopback) -> None:
    loopback.limit_startups("1:100:1")
    for attempt in (lambda: connect(loopback.place), lambda: transport_for(loopback.place).run(COMMAND, timeout_s=30)):
        for pid in masters(loopback):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not masters(loopback))
        with a_place(loopback) as first:
            threading.Timer(0.5, first.close).start()
            attempt()
    loopback.cut()
    wait_until(lambda: not masters(loopback))
    with a_place(loopback), pytest.raises(Unreachable, match="loop: ") as caught:
        transport_for(loopback.place).run(COMMAND, timeout_s=30)
    assert not caught.value.arrived
