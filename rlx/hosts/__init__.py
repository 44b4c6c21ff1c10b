"""Where runs go: the hosts, and how to reach them. Knows nothing of runs."""

from rlx.hosts.inventory import LOCAL, lease_folder, local_site, tmux_socket, transport_for
from rlx.hosts.local import LocalTransport
from rlx.hosts.transport import Completed, Transport

__all__ = [
    "LOCAL",
    "Completed",
    "LocalTransport",
    "Transport",
    "lease_folder",
    "local_site",
    "tmux_socket",
    "transport_for",
]
