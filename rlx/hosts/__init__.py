"""Know the hosts, and reach them: ssh, containers, this machine, and the files of hosts. Knows nothing of runs.

Each name is imported when it is first used: a shell that completes the name of a host needs none of the ways there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlx.hosts.containers.locate import Container, inspect_container, locate
    from rlx.hosts.containers.make import MadeContainer, make_container
    from rlx.hosts.installations import find_installation
    from rlx.hosts.inventory.host import Defaults, Device, Host
    from rlx.hosts.inventory.host_files import project_file, user_file
    from rlx.hosts.inventory.inventory import (
        default_host,
        known_host,
        known_hosts,
        local_site,
        made_name,
        site_of,
        tmux_socket,
    )
    from rlx.hosts.local import LocalTransport
    from rlx.hosts.transport import Completed, Transport
    from rlx.hosts.transports import connect, open_ahead, transport_for
    from rlx.model import Image

_PLACES = {
    "containers.locate": ("Container", "inspect_container", "locate"),
    "containers.make": ("MadeContainer", "make_container"),
    "installations": ("find_installation",),
    "inventory.host": ("Defaults", "Device", "Host", "Image"),
    "inventory.host_files": ("project_file", "user_file"),
    "inventory.inventory": (
        "default_host",
        "known_host",
        "known_hosts",
        "local_site",
        "made_name",
        "site_of",
        "tmux_socket",
    ),
    "local": ("LocalTransport",),
    "transport": ("Completed", "Transport"),
    "transports": ("connect", "open_ahead", "transport_for"),
}
_HOMES = {name: place for place, names in _PLACES.items() for name in names}

__all__ = [
    "Completed",
    "Container",
    "Defaults",
    "Device",
    "Host",
    "Image",
    "LocalTransport",
    "MadeContainer",
    "Transport",
    "connect",
    "default_host",
    "find_installation",
    "inspect_container",
    "known_host",
    "known_hosts",
    "local_site",
    "locate",
    "made_name",
    "make_container",
    "open_ahead",
    "project_file",
    "site_of",
    "tmux_socket",
    "transport_for",
    "user_file",
]


def __getattr__(name: str) -> object:
    """Import a name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
