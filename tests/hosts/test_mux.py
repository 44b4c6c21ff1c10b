"""The socket of a shared connection: what it refuses goes by the ssh program, and nothing runs twice."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from rlx.errors import RlxError
from rlx.hosts import connect, transport_for
from rlx.hosts.host_errors import HostError
from rlx.hosts.opening import Opening
from rlx.hosts.ssh.mux import SharedSession
from rlx.hosts.ssh.mux_socket import Refused, is_answered
from rlx.hosts.ssh.sockets import control_path, socket_path
from rlx.hosts.ssh.ssh_config import ssh_config
from rlx.plan import Cmd
from tests.devices import put_program
from tests.hosts.test_openssh import logins, masters, wait_until
from tests.loopback import Loopback, loopback

__all__ = ["loopback"]


def packet(*numbers: int, text: bytes = b"") -> bytes:
    body = struct.pack(f">{len(numbers)}I", *numbers) + text
    return struct.pack(">I", len(body)) + body


HELLO = packet(1, 4)
DENIED = packet(0x80000002, 0, text=struct.pack(">I", 2) + b"no")
FAILED = packet(0x80000003, 0, text=struct.pack(">I", 30) + b"Session open refused by peer. ")
OPENED = packet(0x80000006, 0, 7)
EXITED = packet(0x80000004, 7, 3)


@contextmanager
def master(path: Path, *said: bytes, answer: bytes = b"") -> Iterator[list[bytes]]:
    """Play an ssh that says this once it is asked, and hangs up; the list has what came for the command."""
    got: list[bytes] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                with connection:
                    got.extend(serve_one(connection, said, answer))

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield got
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def serve_one(connection: socket.socket, said: tuple[bytes, ...], answer: bytes) -> Iterator[bytes]:
    connection.sendall(said[0])
    if not (pipes := take_pipes(connection)):
        return
    connection.sendall(b"".join(words for words in said[1:2]))
    if OPENED in said:
        yield os.read(pipes[0], 100)
    # Who was refused may have hung up.
    with suppress(BrokenPipeError):
        connection.sendall(b"".join(said[2:]))
    os.write(pipes[1], answer)
    for pipe in pipes[1:]:
        os.close(pipe)
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    # What is in it when nobody writes any more.
    with os.fdopen(pipes[0], "rb") as sent:
        yield sent.read()


def take_pipes(connection: socket.socket) -> list[int]:
    pipes: list[int] = []
    while len(pipes) < 3:
        data, found, _, _ = socket.recv_fds(connection, 4096, 3)
        pipes += found
        if not data:
            break
    return pipes


def exchanged(path: Path, data: bytes) -> tuple[bytes, int]:
    with closing(SharedSession(str(path), "sh")) as session:
        out = session.exchange(data, 20, Opening(b""))
        return out, session.end()[0]


def test_an_answer_and_its_exit_come_by_the_socket(tmp_path: Path) -> None:
    with master(tmp_path / "s", HELLO, OPENED, EXITED[:6], EXITED[6:], answer=b"hello") as got:
        assert exchanged(tmp_path / "s", b"data") == (b"hello", 3)
    assert got == [b"data", b""]


def test_a_connection_that_ends_without_an_exit_is_a_failure_of_ssh(tmp_path: Path) -> None:
    for last in (b"", packet(0x80000004), b"\xff\xff\xff\xff"):
        path = tmp_path / f"s{len(last)}"
        with master(path, HELLO, OPENED, last, answer=b"half"), closing(SharedSession(str(path), "sh")) as session:
            assert session.exchange(b"data", 20, Opening(b"")) == b"half"
            assert session.end() == (255, b"\nthe shared connection broke off\n")


@pytest.mark.parametrize("said", [(HELLO, DENIED), (HELLO, FAILED), (HELLO,), (HELLO, b"\0\0\0\1x"), (HELLO, EXITED)])
def test_who_is_refused_has_sent_nothing(tmp_path: Path, said: tuple[bytes, ...]) -> None:
    with master(tmp_path / "s", *said) as got, pytest.raises(Refused):
        exchanged(tmp_path / "s", b"data")
    assert got == [b""]


@pytest.mark.parametrize("greeting", [packet(1, 5), packet(1), packet(2, 4), b"SSH-2.0-OpenSSH_9.2\r\n", b"\0\0\0\0"])
def test_another_protocol_is_given_nothing(tmp_path: Path, greeting: bytes) -> None:
    with master(tmp_path / "s", greeting) as got, pytest.raises(Refused):
        exchanged(tmp_path / "s", b"data")
    assert got == []


def test_where_nobody_listens(tmp_path: Path) -> None:
    path = tmp_path / "s"
    assert not is_answered(str(path))
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(path))
    assert not is_answered(str(path))


def test_another_file_or_another_users_socket_is_not_talked_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        assert os.getuid() != 0 or os.chown(tmp_path / "s", 65534, -1) is None
        for name in ("file", "link") if os.getuid() else ("file", "link", "s"):
            with pytest.raises(RlxError, match="not a socket of this user"):
                SharedSession(str(tmp_path / name), "sh")


# ---- the name of the socket ----------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ssh_config"
    path.touch()
    monkeypatch.setenv("RLX_SSH_CONFIG", str(path))
    return path


@pytest.mark.parametrize(
    "line",
    [
        "Match exec true",
        'match host x !exec "test -e y"',
        "SetEnv A=1",
        "SendEnv LANG HF_*",
        "Include more",
        "SendEnv=*",
    ],
)
def test_where_a_config_can_mean_something_else_each_time_ssh_finds_its_socket(config: Path, line: str) -> None:
    (config.parent / "more").write_text("  SetEnv A=1\n", encoding="utf-8")
    config.write_text(f"Host x\n  Port 7\n{line.replace('more', str(config.parent / 'more'))}\n", encoding="utf-8")
    assert socket_path(ssh_config(), "x") is None
    assert control_path(ssh_config(), "x").endswith("%C")


def test_each_destination_and_config_has_a_socket(config: Path) -> None:
    (config.parent / "more").write_text("Host x\n  Port 7\n", encoding="utf-8")
    texts = [
        "",
        "Host x\nSendEnv LANG LC_*\n",
        f"Include {config.parent}/m*re\nInclude {config}\n",
        "Match host exec2\n",
    ]
    found = set[str | None]()
    for text in texts:
        config.write_text(text, encoding="utf-8")
        found |= {socket_path(ssh_config(), "x"), socket_path(ssh_config(), "y")}
    config.write_text(texts[2], encoding="utf-8")
    (config.parent / "more").write_text("Host x\n  Port 8\n", encoding="utf-8")
    found.add(socket_path(ssh_config(), "x"))
    assert len(found) == 9 and None not in found
    assert all(path and "%" not in path and len(path) + 17 <= 104 for path in found)


# ---- with a real sshd ----------------------------------------------------------------------------------------------


def test_a_warm_connection_needs_no_ssh_program(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    connect(loopback.place)
    put_program(tmp_path, "ssh", "exit 9")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    connect(loopback.place)
    transport = transport_for(loopback.place)
    assert transport.run(Cmd("cat"), stdin=b"in and out", timeout_s=30).out == b"in and out"
    with transport.stream(Cmd("echo", "streamed")) as chunks:
        assert b"".join(chunks) == b"streamed\n"
    assert logins(loopback) == 1


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
    with pytest.raises(HostError, match="connection broke") as caught:
        transport_for(loopback.place).run(Cmd("sh", "-c", script), timeout_s=30)
    assert caught.value.arrived
    assert (tmp_path / "ran").read_text(encoding="utf-8") == "ran\n"


def test_a_socket_that_speaks_another_version_is_left_to_ssh(loopback: Loopback) -> None:
    path = socket_path(ssh_config(), loopback.destination)
    assert path
    with master(Path(path), packet(1, 5)) as got:
        assert transport_for(loopback.place).run(Cmd("echo", "hi"), timeout_s=30).out == b"hi\n"
    assert got == []
    Path(path).unlink()
