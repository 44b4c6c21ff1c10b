"""The transport of a place."""

from __future__ import annotations

from rlx.hosts.docker_exec import ContainerTransport
from rlx.hosts.local import LocalTransport
from rlx.hosts.openssh import OpensshLink
from rlx.hosts.remote_shell import Link, RemoteTransport
from rlx.hosts.transport import Transport
from rlx.plan import Place


def transport_for(place: Place) -> Transport:
    """No network yet. Raises UsageError for a destination that ssh cannot take, ToolMissing without paramiko."""
    host = LocalTransport() if place.destination is None else RemoteTransport(_link(place, place.destination))
    return ContainerTransport(host, place.inside) if place.inside else host


def _link(place: Place, destination: str) -> Link:
    return OpensshLink(place.host, destination)
