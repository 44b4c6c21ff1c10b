"""Reach hosts by the system's `ssh`: the user's ssh config in full, one shared connection per destination."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from rlx.errors import RlxError, UsageError
from rlx.hosts.connection import ConnectionFailure, Session
from rlx.hosts.host_errors import HostError, TimedOut, Unreachable, waited_out
from rlx.hosts.process import process_session, start_ahead
from rlx.hosts.ssh.channel_limit import turn
from rlx.hosts.ssh.ssh_config import ssh_config
from rlx.hosts.ssh.ssh_errors import by_hand, explain_ssh
from rlx.model import Cmd
from rlx.secret_text import names_secret

_OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "LogLevel=ERROR",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
)
_OF_SESSIONS = ("SessionType=default", "StdinNull=no", "ForkAfterAuthentication=no")
"""What else the config may say of sessions. ssh knows it from 8.7 on, and refuses what it does not know."""
_KNOWS_SESSIONS = (8, 7)
_CHECK_S = 5.0
_LOGIN_S = 60.0
_SHARED = ("ControlMaster=auto", "ControlPersist=120")
_OWN = ("ControlMaster=no", "ControlPath=none")

_IPV6_URL = re.compile(r"ssh://(?P<user>[^@]+@)?\[(?P<address>[0-9A-Fa-f:.]+)\](:(?P<port>\d{1,5}))?/?")
_LOCALE = re.compile(r"LANG|LANGUAGE|LC_\w+")


def check_destination(destination: str) -> str:
    """Return the destination as ssh may be given it. Raises UsageError for one that ssh could read as an option."""
    if destination.startswith("-") or not destination or re.search(r"[\s\x00-\x1f\x7f]", destination):
        raise UsageError(
            f"{destination!r} is not a destination for ssh", "write host, user@host, ssh://user@host:port or an alias"
        )
    return destination


def ssh_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Choose what ssh may see of the environment, since `SendEnv` would pass it on: no secrets and no locale."""
    return {name: text for name, text in environment.items() if not (_LOCALE.fullmatch(name) or names_secret(name))}


def interactive(destination: str, cmd: Cmd) -> Cmd:
    """Return the ssh command that shows a command of that host in this terminal.

    No secrets: the login shell there sees it.
    """
    return Cmd(*_ssh("-t", check_destination(destination), ssh_config(), shared=True), cmd)


def _ssh(how: str, destination: str, config: str | None, *, shared: bool) -> list[str]:
    """`how` is an option of ssh, such as that to ask for a terminal, or for none."""
    connection = (*_SHARED, f"ControlPath={_control_path(config)}") if shared else _OWN
    options = [word for option in (*_OPTIONS, *_session_options(), *connection) for word in ("-o", option)]
    chosen = ["-F", config] if config else []
    return ["ssh", how, *chosen, *options, *_address(destination)]


def _session_options() -> tuple[str, ...]:
    return _OF_SESSIONS if _version(shutil.which("ssh")) >= _KNOWS_SESSIONS else ()


@cache
def _version(program: str | None) -> tuple[int, int]:
    """Ask ssh for its version; a recent one where it does not say it as OpenSSH does."""
    if program is None:
        return _KNOWS_SESSIONS
    with suppress(OSError, subprocess.TimeoutExpired):
        said = subprocess.run([program, "-V"], capture_output=True, timeout=_CHECK_S, check=False).stderr
        if found := re.match(rb"OpenSSH_(?:for_Windows_)?(\d+)\.(\d+)", said):
            return int(found[1]), int(found[2])
    return _KNOWS_SESSIONS


def _address(destination: str) -> list[str]:
    """ssh itself takes no IPv6 address in a URL."""
    url = _IPV6_URL.fullmatch(destination)
    if url is None:
        return ["--", destination]
    port = ["-p", url["port"]] if url["port"] else []
    return [*port, "--", f"{url['user'] or ''}{url['address']}"]


class OpensshConnection:
    def __init__(self, host: str, destination: str) -> None:
        self.host = host
        self._destination = check_destination(destination)
        self._config = ssh_config()

    @contextmanager
    def open(self, line: str, *, streaming: bool) -> Iterator[Session]:
        with (
            turn(self._destination, streaming=streaming) as shares,
            process_session(self._argv(line, shares), ssh_environment(os.environ)) as session,
            self._naming_what_hangs(shares),
        ):
            yield session

    @contextmanager
    def _naming_what_hangs(self, shares: bool) -> Iterator[None]:
        """Raise TimedOut that names the shared connection, where that is why a command got no answer."""
        try:
            yield
        except (TimeoutError, TimedOut):
            if shares:
                self._check_connection(TimedOut)
            raise

    def open_ahead(self, line: str) -> None:
        start_ahead(self._argv(line, True), ssh_environment(os.environ))

    def connect(self) -> None:
        """Log in, unless the shared connection is there: several commands at once would each make one of their own.

        Raises HostError.
        """
        if self._check_connection(Unreachable):
            return
        error = self._login_error()
        if error is not None and waited_out(error):
            error = self._login_error()
        if error is not None:
            raise error

    def _login_error(self) -> RlxError | None:
        """Log in; what went wrong, if anything did."""
        cmd = Cmd("true")
        # -f returns as soon as the connection is there.
        argv = [*_ssh("-f", self._destination, self._config, shared=True), cmd.raw()]
        try:
            code, said = self._code(argv, _LOGIN_S)
        except TimeoutError:
            hint = f"see by hand: {by_hand(self._destination)}"
            return Unreachable(f"{self.host}: no login after {_LOGIN_S:g} s", hint)
        failure = ConnectionFailure(cmd, code, said.decode(errors="replace").strip(), began=False)
        return self.explain(failure) if code != 0 else None

    def _check_connection(self, error: type[HostError]) -> bool:
        """Return whether the shared connection is there. Raises the error if it does not answer."""
        argv = _ssh("-Ocheck", self._destination, self._config, shared=True)
        try:
            return self._code(argv, _CHECK_S)[0] == 0
        except TimeoutError:
            folder = _socket_folder()
            raise error(
                f"{self.host}: its shared connection does not answer: the ssh that holds it is stopped or hangs",
                f"end that ssh (its command line names {folder}), or remove {folder}: then rlx opens a new one",
            ) from None

    def _code(self, argv: list[str], timeout_s: float) -> tuple[int, bytes]:
        """Return the exit status and stderr. Raises TimeoutError, and ends that ssh."""
        with process_session(argv, ssh_environment(os.environ)) as session:
            return session.end(timeout_s)

    def _argv(self, line: str, shares: bool) -> list[str]:
        return [*_ssh("-T", self._destination, self._config, shared=shares), line]

    def explain(self, failure: ConnectionFailure) -> RlxError | None:
        return explain_ssh(self.host, self._destination, failure)


def _control_path(config: str | None) -> str:
    """Return ssh's ControlPath: one connection for each ssh config and `%C`, ssh's hash of user, host, port and jump.

    The path is short: a socket's has at most 104 bytes, ssh appends 17 for a while, and TMPDIR may be long. Raises
    RlxError as `_socket_folder` does.
    """
    digest = hashlib.sha256((config or "").encode(errors="surrogateescape")).hexdigest()
    return f"{_socket_folder()}/{digest[:8]}%C"


def _socket_folder() -> Path:
    """Return the folder of the sockets, private to this user. Raises RlxError if it is another's, or cannot be made."""
    folder = Path("/tmp") / f"rlx-ssh-{os.getuid()}"
    try:
        # What is there already, a folder or not, is checked next.
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        status = folder.lstat()
    except OSError as error:
        raise RlxError(f"{folder}: {error.strerror}", "rlx keeps the sockets of ssh connections there") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise RlxError(
            f"{folder}: not a private folder of this user (it holds the sockets of ssh connections)",
            f"if it is yours: chmod 700 {folder}; if not, ask its owner or the administrator to remove it",
        )
    return folder
