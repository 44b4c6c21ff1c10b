"""The transport of a place."""

from __future__ import annotations

from rlx.errors import RlxError
from rlx.hosts.local import LocalTransport
from rlx.hosts.openssh import OpensshLink, interactive
from rlx.hosts.remote_shell import RemoteTransport
from rlx.hosts.transport import Transport
from rlx.plan import Cmd, Place


def terminal_command(place: Place, cmd: Cmd) -> Cmd:
    """What runs a command there in this terminal. Raises RlxError where only output can be had."""
    if place.is_local:
        return cmd
    if place.destination is None or place.inside or place.via != "openssh":
        raise RlxError(f"{place.host}: no terminal can be had there", "follow the log: rlx logs -f")
    return interactive(place.destination, cmd)


def transport_for(place: Place) -> Transport:
    """No network yet. Raises UsageError for a destination that ssh cannot be given."""
    if place.destination is None:
        return LocalTransport()
    if place.via != "openssh" or place.inside:
        raise RlxError(f"{place.host}: rlx cannot reach this host")
    return RemoteTransport(OpensshLink(place.host, place.destination))
