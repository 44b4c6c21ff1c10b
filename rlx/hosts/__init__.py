"""Know the hosts, and reach them. Knows nothing of runs."""

from rlx.hosts.containers.locate import Container, inspect_container, locate
from rlx.hosts.installations import find_installation
from rlx.hosts.inventory.host import Defaults, Device, Host
from rlx.hosts.inventory.host_files import project_file, user_file
from rlx.hosts.inventory.inventory import (
    default_host,
    known_host,
    known_hosts,
    local_site,
    site_of,
    tmux_socket,
)
from rlx.hosts.local import LocalTransport
from rlx.hosts.transport import Completed, Transport
from rlx.hosts.transports import connect, open_ahead, transport_for

__all__ = [
    "Completed",
    "Container",
    "Defaults",
    "Device",
    "Host",
    "LocalTransport",
    "Transport",
    "connect",
    "default_host",
    "find_installation",
    "inspect_container",
    "known_host",
    "known_hosts",
    "local_site",
    "locate",
    "open_ahead",
    "project_file",
    "site_of",
    "tmux_socket",
    "transport_for",
    "user_file",
]
