"""Choose the transport of a place."""

from __future__ import annotations

import logging
import shutil
from functools import cache
from importlib.util import find_spec

from rlx.errors import RlxError, UsageError
from rlx.hosts.connection import Connection
from rlx.hosts.containers.docker_exec import ContainerTransport
from rlx.hosts.host_errors import ToolMissing
from rlx.hosts.local import LocalTransport
from rlx.hosts.remote_shell import RemoteTransport
from rlx.hosts.ssh.openssh import OpensshConnection, interactive
from rlx.hosts.transport import Transport
from rlx.installed import install_command
from rlx.model import Cmd, Place


def terminal_command(place: Place, cmd: Cmd) -> Cmd:
    """Write what runs a command there in this terminal. Raises RlxError where only output can be had."""
    if place.is_local:
        return cmd
    if place.destination is None or place.inside or place.via != "openssh":
        raise RlxError(f"{place.host}: no terminal can be had there", "follow the log: rlx logs -f")
    return interactive(place.destination, cmd)


_log = logging.getLogger(__name__)


def transport_for(place: Place) -> Transport:
    """Make the transport, without network. Raises UsageError for a wrong destination, ToolMissing without paramiko."""
    host = LocalTransport() if place.destination is None else RemoteTransport(_connection_to(place, place.destination))
    return ContainerTransport(host, place.inside) if place.inside else host


def connect(place: Place) -> None:
    """Log in where that takes time, before several commands start at once. Raises HostError."""
    if place.destination is not None and isinstance(
        connection := _connection_to(place, place.destination), OpensshConnection
    ):
        connection.connect()


def open_ahead(place: Place) -> None:
    """Start a shell there for a command that is still to come. There must be a connection."""
    if isinstance(transport := transport_for(place), RemoteTransport):
        transport.open_ahead()


def _connection_to(place: Place, destination: str) -> Connection:
    if place.via == "openssh" and not _ssh_is_missing(place):
        return OpensshConnection(place.host, destination)
    if place.via not in ("openssh", "paramiko"):
        raise UsageError(f"{place.host}: no transport is called {place.via!r}", "write openssh or paramiko")
    if find_spec("paramiko") is None:
        raise ToolMissing(f"{place.host}: paramiko is not installed", install_command("paramiko"))
    from rlx.hosts.ssh.paramiko_transport import ParamikoConnection

    return ParamikoConnection(place.host, destination)


def _ssh_is_missing(place: Place) -> bool:
    """Return whether there is no ssh program. Raises ToolMissing if nothing else can connect either."""
    if shutil.which("ssh"):
        return False
    if find_spec("paramiko") is None:
        raise ToolMissing(
            f"{place.host}: no ssh program on this machine",
            f"install OpenSSH's client, or: {install_command('paramiko')}",
        )
    _say_that_paramiko_connects()
    return True


@cache
def _say_that_paramiko_connects() -> None:
    _log.warning("rlx: no ssh program on this machine, so paramiko connects")
