"""Hosts by the system's `ssh`: the user's ssh config in full, one shared connection a destination."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rlx.errors import RlxError, UsageError
from rlx.hosts.link import Failure
from rlx.hosts.process import ProcessSession, process_session, start_ahead
from rlx.hosts.ssh.channel_limit import turn
from rlx.hosts.ssh.sockets import control_path
from rlx.hosts.ssh.ssh_config import ssh_config
from rlx.hosts.ssh.ssh_errors import explain_ssh
from rlx.plan import Cmd

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
_SHARED = ("ControlMaster=auto", "ControlPersist=120")
_OWN = ("ControlMaster=no", "ControlPath=none")

_IPV6_URL = re.compile(r"ssh://(?P<user>[^@]+@)?\[(?P<address>[0-9A-Fa-f:.]+)\](:(?P<port>\d{1,5}))?/?")
_LOCALE = re.compile(r"LANG|LANGUAGE|LC_\w+")
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|API_?KEY", re.IGNORECASE)


def check_destination(destination: str) -> str:
    """The destination as ssh may be given it. Raises UsageError for one that ssh could read as an option."""
    if destination.startswith("-") or not destination or re.search(r"[\s\x00-\x1f\x7f]", destination):
        raise UsageError(
            f"{destination!r} is not a destination for ssh", "write host, user@host, ssh://user@host:port or an alias"
        )
    return destination


def ssh_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Choose what ssh may see of the environment, since `SendEnv` would pass it on: no secrets and no locale."""
    return {name: text for name, text in environment.items() if not (_LOCALE.fullmatch(name) or _SECRET.search(name))}


def interactive(destination: str, cmd: Cmd) -> Cmd:
    """The ssh command that shows a command of that host in this terminal. No secrets: the login shell there sees it."""
    return Cmd(*_ssh("-t", check_destination(destination), ssh_config(), shared=True), cmd)


def _ssh(how: str, destination: str, config: str | None, *, shared: bool) -> list[str]:
    """`how` is an option of ssh, such as that to ask for a terminal, or for none."""
    connection = (*_SHARED, f"ControlPath={control_path(config)}") if shared else _OWN
    options = [word for option in (*_OPTIONS, *connection) for word in ("-o", option)]
    chosen = ["-F", config] if config else []
    return ["ssh", how, *chosen, *options, *_address(destination)]


def _address(destination: str) -> list[str]:
    """ssh itself takes no IPv6 address in a URL."""
    url = _IPV6_URL.fullmatch(destination)
    if url is None:
        return ["--", destination]
    port = ["-p", url["port"]] if url["port"] else []
    return [*port, "--", f"{url['user'] or ''}{url['address']}"]


class OpensshLink:
    def __init__(self, host: str, destination: str) -> None:
        self.host = host
        self._destination = check_destination(destination)
        self._config = ssh_config()

    @contextmanager
    def open(self, line: str, *, streaming: bool) -> Iterator[ProcessSession]:
        with (
            turn(self._destination, streaming=streaming) as shares,
            process_session(self._argv(line, shares), ssh_environment(os.environ)) as session,
        ):
            yield session

    def open_ahead(self, line: str) -> None:
        start_ahead(self._argv(line, True), ssh_environment(os.environ))

    def connect(self) -> None:
        """Log in, unless the shared connection is there: several commands at once would each make one of their own.

        Raises HostError.
        """
        if self._code(_ssh("-Ocheck", self._destination, self._config, shared=True))[0] == 0:
            return
        cmd = Cmd("true")
        # -f returns as soon as the connection is there.
        argv = [*_ssh("-f", self._destination, self._config, shared=True), cmd.raw()]
        code, said = self._code(argv)
        failure = Failure(cmd, code, said.decode(errors="replace").strip(), began=False)
        if code != 0 and (error := self.explain(failure)):
            raise error

    def _code(self, argv: list[str]) -> tuple[int, bytes]:
        with process_session(argv, ssh_environment(os.environ)) as session:
            return session.end()

    def _argv(self, line: str, shares: bool) -> list[str]:
        return [*_ssh("-T", self._destination, self._config, shared=shares), line]

    def explain(self, failure: Failure) -> RlxError | None:
        return explain_ssh(self.host, self._destination, failure)
