"""Where runs go: the hosts, and how to reach them. Knows nothing of runs."""

from rlx.hosts.inventory import local_site, site_of, tmux_socket
from rlx.hosts.local import LocalTransport
from rlx.hosts.transport import Completed, Transport
from rlx.hosts.transports import transport_for

__all__ = [
    "Completed",
    "LocalTransport",
    "Transport",
    "local_site",
    "site_of",
    "tmux_socket",
    "transport_for",
]
