"""Reach hosts by paramiko, in this process: where there is no `ssh` program, or by choice."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import getpass
import glob
import hashlib
import hmac
import logging
import re
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rlx.errors import RlxError, UsageError
from rlx.hosts.connection import MOST_ANSWER_BYTES, AnswerTooLong, ConnectionFailure, LeftSeconds, Opening
from rlx.hosts.host_errors import AccessDenied, HostError, HostKeyChanged, HostKeyUnknown, Unreachable
from rlx.hosts.ssh.channel_limit import turn
from rlx.hosts.ssh.openssh import check_destination
from rlx.hosts.ssh.ssh_config import ssh_config
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


_connections: dict[SshSettings, paramiko.SSHClient] = {}
_locks: defaultdict[SshSettings, threading.Lock] = defaultdict(threading.Lock)


class ParamikoConnection:
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

    def explain(self, failure: ConnectionFailure) -> RlxError | None:
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


def _socket(settings: SshSettings) -> socket.socket:
    """Connect. paramiko sends keepalives but never misses an answer; the kernel does, where it can be set to."""
    connection = socket.create_connection((settings.host, settings.port), timeout=_CONNECT_S)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_AFTER_MS)
    return connection


def _client(keys: list[HostKey], settings: SshSettings) -> paramiko.SSHClient:
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
def _connecting(host: str, destination: str, settings: SshSettings) -> Iterator[None]:
    """Raise HostErrors in place of paramiko's and the system's."""
    import paramiko

    try:
        yield
    except (paramiko.SSHException, OSError, EOFError, UnicodeError) as error:
        raise _meaning(error, f"{host} ({settings.user}@{settings.host}:{settings.port})", settings) from None


def _meaning(error: Exception, where: str, settings: SshSettings) -> HostError:
    import paramiko

    name = settings.host if settings.port == 22 else f"[{settings.host}]:{settings.port}"
    if isinstance(error, paramiko.BadHostKeyException):
        hint = (
            "if the machine was set up anew, ask its administrator for the new fingerprint, then forget the old key:"
            f" ssh-keygen -R '{name}'; otherwise the connection may be intercepted: do not connect"
        )
        return HostKeyChanged(f"{where}: the host shows another key than the known one, or a revoked one", hint)
    if str(error) == _UNKNOWN_KEY:
        hint = (
            f"get its line with `ssh-keyscan -p {settings.port} {settings.host}`, compare the fingerprint with what"
            f" its administrator says, and add it to {settings.known_hosts[0]}"
        )
        return HostKeyUnknown(f"{where}: this host's key is not confirmed yet", hint)
    if isinstance(error, paramiko.AuthenticationException | paramiko.PasswordRequiredException):
        hint = "check the user, and that the key is loaded (ssh-add -l) or named by IdentityFile in the ssh config"
        return AccessDenied(f"{where}: the host does not let this user in ({error})", hint)
    if isinstance(error, socket.gaierror):
        return Unreachable(f"{where}: no such host name ({error.strerror})", "check the spelling")
    return Unreachable(
        f"{where}: no connection ({error})", "check the network or VPN, the port, and that sshd is running"
    )


_HONOURED = {
    "hostname", "port", "user", "identityfile", "identitiesonly", "identityagent",
    "userknownhostsfile", "globalknownhostsfile",
}  # fmt: skip
# rlx decides these itself for every transport, or they make no difference to a command.
_WITHOUT_EFFECT = {
    "batchmode", "stricthostkeychecking", "connecttimeout", "connectionattempts", "serveraliveinterval",
    "serveralivecountmax", "tcpkeepalive", "loglevel", "forwardagent", "forwardx11", "forwardx11trusted", "sendenv",
    "setenv", "hashknownhosts", "addkeystoagent", "usekeychain", "compression", "controlmaster", "controlpath",
    "controlpersist", "updatehostkeys", "visualhostkey", "checkhostip", "requesttty", "escapechar", "localforward",
    "remoteforward", "dynamicforward", "permitlocalcommand", "localcommand", "preferredauthentications",
    "pubkeyauthentication", "passwordauthentication", "numberofpasswordprompts", "gssapiauthentication",
    "gssapidelegatecredentials", "exitonforwardfailure", "ipqos", "ignoreunknown",
}  # fmt: skip
_OFF = ("no", "none", "false")
_PORT = 22
_MARKERS = ("@cert-authority", "@revoked")


@dataclass(frozen=True, slots=True)
class SshSettings:
    """The way to a destination. `identities` and `known_hosts` are files; some may not be there."""

    host: str
    port: int
    user: str
    identities: tuple[str, ...]
    uses_agent: bool
    looks_for_keys: bool
    known_hosts: tuple[Path, ...]


def settings_of(destination: str) -> SshSettings:
    """Read the settings for a destination.

    Raises UsageError for what is no destination, RlxError for a config that paramiko cannot honour.
    """
    user, alias, port = _parts(check_destination(destination))
    options = _options_of(alias)
    agent = options.get("identityagent", "SSH_AUTH_SOCK")
    return SshSettings(
        host=str(options.get("hostname", alias)),
        port=port or _port(options, alias),
        user=user or str(options.get("user", getpass.getuser())),
        identities=tuple(path for path in options.get("identityfile", ()) if Path(path).is_file()),
        uses_agent=agent != "none",
        looks_for_keys=options.get("identitiesonly", "no") != "yes" and "identityfile" not in options,
        known_hosts=_known_hosts(options),
    )


def _parts(destination: str) -> tuple[str | None, str, int | None]:
    if not destination.startswith("ssh://"):
        user, at, host = destination.rpartition("@")
        return (user if at else None), host, None
    try:
        url = urlsplit(destination)
        return url.username, url.hostname or "", url.port
    except ValueError as error:
        raise UsageError(f"{destination!r} is not a destination for ssh: {error}") from None


def _port(options: dict[str, str], alias: str) -> int:
    text = str(options.get("port", _PORT))
    if not (text.isascii() and text.isdigit() and 0 < int(text[:9]) < 1 << 16):
        raise _refusal(alias, f"port {text}")
    return int(text)


def _known_hosts(options: dict[str, str]) -> tuple[Path, ...]:
    users = options.get("userknownhostsfile", "~/.ssh/known_hosts ~/.ssh/known_hosts2")
    everybodys = options.get("globalknownhostsfile", "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2")
    return tuple(Path(name).expanduser() for name in f"{users} {everybodys}".split())


def _options_of(alias: str) -> dict[str, str]:
    import paramiko

    own = ssh_config()
    files = [Path(own)] if own else [Path("~/.ssh/config").expanduser(), Path("/etc/ssh/ssh_config")]
    text = "\n".join(_readable(path, alias) for path in files if path.is_file())
    options = paramiko.SSHConfig.from_text(text).lookup(alias)
    for name, value in options.items():
        _check(name, str(value), alias)
    return dict(options)


def _readable(path: Path, alias: str) -> str:
    """Return the text of a config file.

    A file begins anew for every host, also after the Host blocks of another one.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        keyword, value = re.match(r"\s*([^\s=]*)[\s=]*(.*)", line).groups()  # type: ignore[union-attr]
        if _needs_a_whole_ssh(keyword.lower(), value, path):
            raise _refusal(alias, f"{keyword} in {path}:{number}")
    return f"{text}\nHost *\n"


def _needs_a_whole_ssh(keyword: str, value: str, path: Path) -> bool:
    """Find what cannot be seen in the options of the host any more, once paramiko has read the file."""
    if keyword == "include":
        return _includes_something(value, path)
    if keyword == "canonicalizehostname":
        return value.lower() not in _OFF
    return keyword == "match" or (keyword.endswith("knownhostsfile") and '"' in value)


def _includes_something(value: str, path: Path) -> bool:
    folder = Path("~/.ssh").expanduser() if Path.home() in path.parents else Path("/etc/ssh")
    patterns = [str(folder / Path(word).expanduser()) for word in value.replace('"', "").split()]
    return any(glob.glob(pattern) for pattern in patterns)  # noqa: PTH207 - the pattern may be absolute


def _check(name: str, value: str, alias: str) -> None:
    is_on = value.lower() not in _OFF
    if name not in _HONOURED | _WITHOUT_EFFECT and is_on:
        raise _refusal(alias, f"{name} {value}")
    if name in _HONOURED and re.search(r"\s#|%", value):
        raise _refusal(alias, f"a comment or % in {name} {value}")
    if name == "identityagent" and value not in ("none", "SSH_AUTH_SOCK"):
        raise _refusal(alias, f"{name} {value}")


def _refusal(alias: str, what: str) -> RlxError:
    return RlxError(
        f"{alias}: its ssh config has what paramiko cannot honour: {what}",
        "use OpenSSH for this host (via: openssh), or give it a plain entry in a config of its own (RLX_SSH_CONFIG)",
    )


@dataclass(frozen=True, slots=True)
class HostKey:
    """`marker` is empty for a plain key, else @revoked or @cert-authority."""

    marker: str
    kind: str
    data: bytes


def host_keys(files: Iterable[Path], host: str, port: int) -> list[HostKey]:
    """Return the keys of a host. Lines that cannot be read are no keys; a file that is not there has none."""
    name = host.lower() if port == 22 else f"[{host.lower()}]:{port}"
    return [key for path in files for line in _lines(path) for key in _keys_in(line, name)]


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            yield from file
    except OSError:
        return


def _keys_in(line: str, name: str) -> Iterator[HostKey]:
    fields = line.split()
    marker = fields.pop(0) if fields and fields[0] in _MARKERS else ""
    if len(fields) < 3 or fields[0].startswith(("#", "@")) or not _is_about(fields[0], name):
        return
    try:
        yield HostKey(marker, fields[1], base64.b64decode(fields[2]))
    except binascii.Error:
        return


def _is_about(patterns: str, name: str) -> bool:
    if patterns.startswith("|1|"):
        return _is_hash_of(patterns, name)
    listed = patterns.lower().split(",")
    refused = any(_matches(name, pattern[1:]) for pattern in listed if pattern.startswith("!"))
    return not refused and any(_matches(name, pattern) for pattern in listed if not pattern.startswith("!"))


def _matches(name: str, pattern: str) -> bool:
    """ssh's wildcards are * and ?; brackets are part of a name with a port."""
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


def _is_hash_of(hashed: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part) for part in hashed.split("|")[2:4])
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)
