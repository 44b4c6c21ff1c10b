"""Hosts by paramiko, in this process: where there is no `ssh` program, or by choice."""

from __future__ import annotations

import logging
import socket
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from rlx.errors import RlxError
from rlx.hosts.link import Failure
from rlx.hosts.ssh.channel_limit import turn
from rlx.hosts.ssh.host_keys import HostKey, host_keys
from rlx.hosts.ssh.paramiko_config import Settings, settings_of
from rlx.hosts.ssh.paramiko_errors import UNKNOWN_KEY, connecting
from rlx.hosts.ssh.paramiko_session import ChannelSession, close
from rlx.hosts.ssh.ssh_errors import explain_ssh

if TYPE_CHECKING:
    import paramiko

_CONNECT_S = 10
_KEEPALIVE_S = 5
_DEAD_AFTER_MS = 15_000
_KEY_KINDS = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")

# It would print what rlx says better.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_connections: dict[Settings, paramiko.SSHClient] = {}
_locks: defaultdict[Settings, threading.Lock] = defaultdict(threading.Lock)


class ParamikoLink:
    """One connection a destination, kept open until rlx ends."""

    def __init__(self, host: str, destination: str) -> None:
        self.host = host
        self._destination = destination
        self._settings = settings_of(destination)

    @contextmanager
    def open(self, line: str, *, streaming: bool) -> Iterator[ChannelSession]:
        with turn(self._destination, streaming=streaming) as shares, ExitStack() as opened:
            # Whatever goes wrong here went wrong before the command began.
            with connecting(self.host, self._destination, self._settings):
                channel = self._shared_session() if shares else None
                if channel is None:
                    client = self._connect()
                    opened.callback(client.close)
                    channel = _session(client)
                opened.callback(channel.close)
                _start(channel, line)
            yield ChannelSession(channel)

    def open_ahead(self, line: str) -> None:
        """Do nothing: paramiko is there for machines without ssh, and opens no channel ahead."""

    def _shared_session(self) -> paramiko.Channel | None:
        """Open a session; None if the host grants no more. A connection that broke unnoticed is replaced.

        One at a time: of several refusals at once paramiko keeps one, and the others would look like a broken one.
        """
        import paramiko

        with _locks[self._settings]:
            client = self._shared()
            try:
                return _session(client)
            except paramiko.ChannelException:
                return None
            except (paramiko.SSHException, OSError, EOFError):
                client.close()
                return _session(self._shared())

    def _shared(self) -> paramiko.SSHClient:
        client = _connections.get(self._settings)
        transport = client.get_transport() if client else None
        if client is None or transport is None or not transport.is_active():
            client = _connections[self._settings] = self._connect()
        return client

    def _connect(self) -> paramiko.SSHClient:
        import paramiko

        settings = self._settings
        with connecting(self.host, self._destination, settings):
            client = _client(host_keys(settings.known_hosts, settings.host, settings.port), settings)
            client.connect(
                settings.host,
                settings.port,
                settings.user,
                sock=_socket(settings),
                key_filename=list(settings.identities),  # type: ignore[arg-type]
                allow_agent=settings.uses_agent,
                look_for_keys=settings.looks_for_keys,
                timeout=_CONNECT_S,
                banner_timeout=_CONNECT_S,
                auth_timeout=_CONNECT_S,
            )
        transport = client.get_transport()
        assert isinstance(transport, paramiko.Transport)
        transport.set_keepalive(_KEEPALIVE_S)
        return client

    def explain(self, failure: Failure) -> RlxError | None:
        return explain_ssh(self.host, self._destination, failure)


def _session(client: paramiko.SSHClient) -> paramiko.Channel:
    import paramiko

    transport = client.get_transport()
    if transport is None:
        raise paramiko.SSHException("not connected")
    return transport.open_session(timeout=_CONNECT_S)


def _start(channel: paramiko.Channel, line: str) -> None:
    """paramiko waits for ever for the answer to this request; a channel that is closed ends the wait."""
    timer = threading.Timer(_CONNECT_S, close, (channel,))
    timer.start()
    try:
        channel.exec_command(line)
    finally:
        timer.cancel()


def _socket(settings: Settings) -> socket.socket:
    """paramiko sends keepalives but never misses an answer; the kernel does, where it can be told so."""
    connection = socket.create_connection((settings.host, settings.port), timeout=_CONNECT_S)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_AFTER_MS)
    return connection


def _client(keys: list[HostKey], settings: Settings) -> paramiko.SSHClient:
    """Raises SSHException when connecting to a host whose key is not among these."""
    import paramiko

    revoked = {key.data for key in keys if key.marker == "@revoked"}
    name = settings.host if settings.port == 22 else f"[{settings.host}]:{settings.port}"
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(_refuse_unknown(revoked))
    for key in keys:
        if not key.marker and key.kind in _KEY_KINDS and key.data not in revoked:
            client.get_host_keys().add(name, key.kind, paramiko.PKey.from_type_string(key.kind, key.data))
    return client


def _refuse_unknown(revoked: set[bytes]) -> paramiko.MissingHostKeyPolicy:
    import paramiko

    class RefuseUnknown(paramiko.MissingHostKeyPolicy):
        def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
            if key.asbytes() in revoked:
                raise paramiko.BadHostKeyException(hostname, key, key)
            raise paramiko.SSHException(UNKNOWN_KEY)

    return RefuseUnknown()
