"""Reach hosts by paramiko, in this process: where there is no `ssh` program, or by choice."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from rlx.errors import RlxError
from rlx.hosts.host_errors import AccessDenied, HostError, HostKeyChanged, HostKeyUnknown, Unreachable
from rlx.hosts.link import MOST_ANSWER_BYTES, AnswerTooLong, Failure, LeftSeconds, Opening
from rlx.hosts.ssh.channel_limit import turn
from rlx.hosts.ssh.paramiko_config import HostKey, Settings, host_keys, settings_of
from rlx.hosts.ssh.ssh_errors import explain_ssh

if TYPE_CHECKING:
    import paramiko

_CONNECT_S = 10
_KEEPALIVE_S = 5
_DEAD_AFTER_MS = 15_000
_KEY_KINDS = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")
_CHUNK_BYTES = 65536
_LOST = 255
_NAP_S = 0.01

# With the connection gone, paramiko says either.
_GONE = (OSError, EOFError)
_UNKNOWN_KEY = "the key is not among the known ones"


# It would print what rlx says better.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


_connections: dict[Settings, paramiko.SSHClient] = {}
_locks: defaultdict[Settings, threading.Lock] = defaultdict(threading.Lock)


class ParamikoLink:
    """A connection per destination, kept open until rlx ends."""

    def __init__(self, host: str, destination: str) -> None:
        self.host = host
        self._destination = destination
        self._settings = settings_of(destination)

    @contextmanager
    def open(self, line: str, *, streaming: bool) -> Iterator[_ChannelSession]:
        with turn(self._destination, streaming=streaming) as shares, ExitStack() as opened:
            # Whatever goes wrong here went wrong before the command began.
            with _connecting(self.host, self._destination, self._settings):
                channel = self._shared_session() if shares else None
                if channel is None:
                    client = self._connect()
                    opened.callback(client.close)
                    channel = _session(client)
                opened.callback(channel.close)
                _start(channel, line)
            yield _ChannelSession(channel)

    def open_ahead(self, line: str) -> None:
        """Do nothing: paramiko is there for machines without ssh, and opens no channel ahead."""

    def _shared_session(self) -> paramiko.Channel | None:
        """Open a session; None if the host grants no more. A connection that broke unnoticed is replaced.

        One at a time: of several refusals at once paramiko keeps one, and the others would appear to be a broken one.
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
        with _connecting(self.host, self._destination, settings):
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
    """Start a command.

    paramiko waits for ever for the answer to this request; a channel that is closed ends the wait.
    """
    timer = threading.Timer(_CONNECT_S, _close, (channel,))
    timer.start()
    try:
        channel.exec_command(line)
    finally:
        timer.cancel()


def _socket(settings: Settings) -> socket.socket:
    """Connect. paramiko sends keepalives but never misses an answer; the kernel does, where it can be set to."""
    connection = socket.create_connection((settings.host, settings.port), timeout=_CONNECT_S)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_AFTER_MS)
    return connection


def _client(keys: list[HostKey], settings: Settings) -> paramiko.SSHClient:
    """Make a client with the host keys. Raises SSHException when connecting to a host whose key is not among these."""
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
            raise paramiko.SSHException(_UNKNOWN_KEY)

    return RefuseUnknown()


class _ChannelSession:
    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._err = bytearray()
        self._err_reader = self._start(self._read_err)

    def exchange(self, data: bytes, timeout_s: float, opening: Opening) -> bytes:
        expired = threading.Event()
        timer = threading.Timer(timeout_s, self._expire, (expired,))
        timer.start()
        try:
            out = self._all(data, opening)
            self._err_reader.join()
            self._channel.status_event.wait()
        finally:
            timer.cancel()
        if expired.is_set():
            raise TimeoutError
        if max(len(out), len(self._err)) > MOST_ANSWER_BYTES:
            raise AnswerTooLong
        return bytes(out)

    def _all(self, data: bytes, opening: Opening) -> bytearray:
        out = bytearray()
        for chunk in self.chunks(data, lambda: None if opening.has_begun else 1.0):
            out += chunk
            opening.take(chunk)
            if opening.asks_again():
                self.send(data)
            if len(out) > MOST_ANSWER_BYTES:
                _close(self._channel)
        return out

    def _expire(self, expired: threading.Event) -> None:
        expired.set()
        _close(self._channel)

    def chunks(self, data: bytes, left_s: LeftSeconds) -> Iterator[bytes]:
        self.send(data)
        while (chunk := self._read(left_s())) != b"":
            yield chunk or b""

    def send(self, data: bytes) -> None:
        self._start(self._send, data)

    def _read(self, timeout_s: float | None) -> bytes | None:
        """Read what is there next; nothing at the end, None if nothing came in time."""
        # A time-out of the channel would hold for the threads beside this one, too.
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while until is not None and not self._channel.recv_ready() and not self._channel.eof_received:
            if self._channel.closed or time.monotonic() > until:
                return b"" if self._channel.closed else None
            time.sleep(_NAP_S)
        return self._channel.recv(_CHUNK_BYTES)

    def end(self) -> tuple[int, bytes]:
        self._err_reader.join()
        code = self._channel.recv_exit_status()
        return (_LOST if code == -1 else code), bytes(self._err)

    def _start(self, work: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        return thread

    def _send(self, data: bytes) -> None:
        """Send in pieces, because paramiko copies what is left of one after every packet."""
        with suppress(*_GONE):
            for begin in range(0, len(data), _CHUNK_BYTES):
                self._channel.sendall(data[begin : begin + _CHUNK_BYTES])

    def _read_err(self) -> None:
        """Read it beside stdout, since both share the channel's window."""
        with suppress(*_GONE):
            while chunk := self._channel.recv_stderr(_CHUNK_BYTES):
                self._err += chunk
                if len(self._err) > MOST_ANSWER_BYTES:
                    _close(self._channel)


def _close(channel: paramiko.Channel) -> None:
    """Close the channel, so that a thread that waits for it goes on.

    With the connection gone, there is none to close.
    """
    with suppress(*_GONE):
        channel.close()


@contextmanager
def _connecting(host: str, destination: str, settings: Settings) -> Iterator[None]:
    """Raise HostErrors in place of paramiko's and the system's."""
    import paramiko

    try:
        yield
    except (paramiko.SSHException, OSError, EOFError, UnicodeError) as error:
        raise _meaning(error, f"{host} ({settings.user}@{settings.host}:{settings.port})", settings) from None


def _meaning(error: Exception, where: str, settings: Settings) -> HostError:
    import paramiko

    name = settings.host if settings.port == 22 else f"[{settings.host}]:{settings.port}"
    if isinstance(error, paramiko.BadHostKeyException):
        hint = (
            "if the machine was set up anew, ask its administrator for the new fingerprint, then forget the old key:"
            f" ssh-keygen -R '{name}'; otherwise somebody may be in between: do not connect"
        )
        return HostKeyChanged(f"{where}: the host shows another key than the known one, or a revoked one", hint)
    if str(error) == _UNKNOWN_KEY:
        hint = (
            f"get its line with `ssh-keyscan -p {settings.port} {settings.host}`, compare the fingerprint with what"
            f" its administrator says, and add it to {settings.known_hosts[0]}"
        )
        return HostKeyUnknown(f"{where}: nobody has confirmed this host's key yet", hint)
    if isinstance(error, paramiko.AuthenticationException | paramiko.PasswordRequiredException):
        hint = "is it the right user, and is the key loaded (ssh-add -l) or named by IdentityFile in the ssh config?"
        return AccessDenied(f"{where}: the host does not let this user in ({error})", hint)
    if isinstance(error, socket.gaierror):
        return Unreachable(f"{where}: no such host name ({error.strerror})", "is the name spelled right?")
    return Unreachable(
        f"{where}: no connection ({error})", "is the network or VPN up, the port right and sshd running?"
    )
