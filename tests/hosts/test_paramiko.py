"""paramiko against a real sshd: the same rules on host keys as OpenSSH, and no host reached round its config."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace

import paramiko
import pytest
from paramiko.common import AUTH_SUCCESSFUL, OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED, OPEN_SUCCEEDED
from syrupy.assertion import SnapshotAssertion

from rlx.errors import RlxError
from rlx.hosts import transport_for
from rlx.hosts.host_errors import AccessDenied, ConnectionLost, HostError, HostKeyChanged, HostKeyUnknown, Unreachable
from rlx.model import Cmd, Place
from tests.loopback import Loopback, loopback

__all__ = ["loopback"]

COMMAND = Cmd("echo", "hello")


def says_hello(host: Loopback) -> bool:
    return transport_for(host.place_via("paramiko")).run(COMMAND, timeout_s=30).out == b"hello\n"


def refused(host: Loopback) -> HostError:
    with pytest.raises(HostError) as caught:
        says_hello(host)
    assert caught.value.message.startswith("loop ")
    assert caught.value.hint
    assert not caught.value.arrived
    return caught.value


def test_an_unknown_host_key_is_to_be_confirmed_by_hand(loopback: Loopback) -> None:
    loopback.forget_host_key()
    error = refused(loopback)
    assert isinstance(error, HostKeyUnknown)
    assert f"ssh-keyscan -p {loopback.port} 127.0.0.1" in error.hint


def test_a_changed_host_key_is_refused(loopback: Loopback) -> None:
    loopback.change_host_key()
    error = refused(loopback)
    assert isinstance(error, HostKeyChanged)
    assert f"ssh-keygen -R '[127.0.0.1]:{loopback.port}'" in error.hint


def test_a_user_who_is_not_let_in_is_told_so(loopback: Loopback) -> None:
    loopback.deny_user()
    error = refused(loopback)
    assert isinstance(error, AccessDenied)
    assert loopback.user in error.message


def test_where_nothing_listens(loopback: Loopback) -> None:
    loopback.stop()
    assert isinstance(refused(loopback), Unreachable)


def test_a_name_that_is_none(loopback: Loopback, wording: SnapshotAssertion) -> None:
    loopback.add_config("Host loop\n  HostName no-such-host.invalid")
    error = refused(loopback)
    assert isinstance(error, Unreachable)
    assert "no-such-host.invalid" in error.message and error.hint == wording


def test_a_server_that_is_no_sshd(loopback: Loopback) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = replace(loopback.place_via("paramiko"), destination=f"ssh://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(Unreachable):
            transport_for(place).run(COMMAND, timeout_s=30)


def test_a_known_host_is_found_in_any_form_of_line(loopback: Loopback) -> None:
    key = loopback.known_hosts.read_text(encoding="utf-8").split(maxsplit=1)[1]
    name, salt = f"[127.0.0.1]:{loopback.port}", os.urandom(20)
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    hashed = f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"
    others = "@cert-authority *.example ssh-ed25519 AAAA\n# comment\nbroken\nother ssh-ed25519 !!!\n"
    for patterns in (hashed, f"other,{name}", f"[127.0.0.?]:{loopback.port}", "*"):
        loopback.known_hosts.write_text(f"{others}{patterns} {key}", encoding="utf-8")
        loopback.cut()
        assert says_hello(loopback)
    for patterns in ("127.0.0.1", f"*,!{name}", hashed.replace("|1|", "|2|")):
        loopback.known_hosts.write_text(f"{others}{patterns} {key}", encoding="utf-8")
        assert fails_anew(loopback, HostKeyUnknown)


def test_a_revoked_key_is_refused(loopback: Loopback) -> None:
    line = loopback.known_hosts.read_text(encoding="utf-8")
    loopback.known_hosts.write_text(f"{line}@revoked * {line.split(maxsplit=1)[1]}", encoding="utf-8")
    assert isinstance(refused(loopback), HostKeyChanged)


def fails_anew(host: Loopback, error: type[HostError]) -> bool:
    """An open connection is used again, so it has to end first."""
    host.cut()
    with pytest.raises(error):
        for _ in range(100):
            says_hello(host)
            host.cut()
    return True


@pytest.mark.parametrize(
    "config",
    [
        "ProxyJump elsewhere",
        "ProxyCommand nc %h %p",
        "HostKeyAlias other",
        "CanonicalizeHostname yes",
        "IdentityAgent /run/agent",
        "Match exec true",
        "Include {folder}/*",
        "KnownHostsCommand /bin/true",
        "BindAddress 127.0.0.1",
        "UserKnownHostsFile ~/.ssh/%h",
        'UserKnownHostsFile "/a b"',
        "Ciphers aes128-ctr",
        "NoSuchOption yes",
    ],
)
def test_a_config_that_cannot_be_honoured_is_refused(loopback: Loopback, config: str) -> None:
    loopback.add_config(config.replace("{folder}", str(loopback.config.parent)))
    with pytest.raises(RlxError, match=re.compile(re.escape(config.split()[0]), re.IGNORECASE)) as caught:
        transport_for(loopback.place_via("paramiko"))
    assert "openssh" in caught.value.hint


def test_what_other_hosts_need_does_not_matter(loopback: Loopback) -> None:
    loopback.add_config("Host far\n  ProxyJump near\nHost *\n  ServerAliveInterval 3\n  SendEnv LANG\n  ProxyJump none")
    assert says_hello(loopback)


def test_a_connection_that_breaks_is_no_end(loopback: Loopback) -> None:
    transport = transport_for(loopback.place_via("paramiko"))
    with transport.stream(Cmd("sh", "-c", "echo begun; sleep 500")) as chunks:
        assert next(chunks) == b"begun\n"
        loopback.cut()
        with pytest.raises(ConnectionLost):
            next(chunks)
    assert says_hello(loopback)


def test_one_connection_serves_all_commands(loopback: Loopback) -> None:
    for _ in range(3):
        assert says_hello(loopback)
    assert loopback.log().count("Accepted publickey") == 1


def test_refused_sessions_break_no_other(loopback: Loopback) -> None:
    """A busy sshd may have counted those that just ended; whoever is refused connects by itself."""
    loopback.limit_sessions(1)
    transport = transport_for(loopback.place_via("paramiko"))
    lasting = Cmd("sh", "-c", "echo begun; until [ -e ~/go ]; do sleep 0.1; done; echo lasted")
    with transport.stream(lasting) as chunks, ThreadPoolExecutor(4) as pool:
        assert next(chunks) == b"begun\n"
        completed = pool.map(lambda _: transport.run(COMMAND, timeout_s=60), range(16))
        assert [command.out for command in completed] == [b"hello\n"] * 16
        (loopback.home / "go").touch()
        assert next(chunks) == b"lasted\n"


class Strange(paramiko.ServerInterface):
    """A server that lets in whoever comes, and then does not do what is asked."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.over = threading.Event()

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        refuses = self.way == "refuses sessions"
        return OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED if refuses else OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        if self.way == "never answers":
            self.over.wait(60)
        return False


@contextmanager
def strange_server(host: Loopback, way: str) -> Iterator[None]:
    host.stop()
    key = paramiko.Ed25519Key.from_private_key_file(str(host.config.parent / "host_key"))
    server, transports = Strange(way), []

    def serve() -> None:
        # The end of the listener, or a client that has gone before it was greeted.
        with suppress(OSError, EOFError, paramiko.SSHException):
            while True:
                transports.append(paramiko.Transport(listener.accept()[0]))
                transports[-1].add_server_key(key)
                transports[-1].start_server(server=server)

    with socket.create_server(("127.0.0.1", host.port)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            server.over.set()
            thread.join()
            for transport in transports:
                transport.close()


@pytest.mark.parametrize("way", ["refuses sessions", "refuses commands", "never answers"])
def test_a_server_that_does_not_start_the_command_is_unreachable(loopback: Loopback, way: str) -> None:
    with strange_server(loopback, way):
        assert isinstance(refused(loopback), Unreachable)


@pytest.mark.parametrize("name", ["a" * 70, "a..b", "\u2603" * 40])
def test_a_name_that_no_host_can_have(loopback: Loopback, name: str) -> None:
    place = Place("loop", f"me@{name}", via="paramiko")
    with pytest.raises(Unreachable):
        transport_for(place).run(COMMAND, timeout_s=30)


@pytest.mark.parametrize("port", ["none", "0", "99999", "9" * 5000])
def test_a_port_that_is_none(loopback: Loopback, port: str) -> None:
    loopback.config.write_text(f"Host loop\n  Port {port}\n", encoding="utf-8")
    with pytest.raises(RlxError, match="port"):
        transport_for(loopback.place_via("paramiko"))
