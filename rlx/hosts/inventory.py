"""The hosts that rlx knows, and where runs live on them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rlx.errors import UsageError
from rlx.hosts.local import LocalTransport
from rlx.hosts.transport import Transport
from rlx.plan import Site

LOCAL = "local"


def local_site() -> Site:
    """This machine: runs under `$RLX_ROOT`, else `~/rlx`, with the programs next to the Python that runs rlx."""
    chosen = os.environ.get("RLX_ROOT")
    root = str(Path(chosen).expanduser().absolute()) if chosen else "~/rlx"
    return Site(host=LOCAL, root=root, path_prefix=(str(Path(sys.executable).parent),))


def transport_for(host: str) -> Transport:
    """Raises UsageError for a host that rlx does not know."""
    if host != LOCAL:
        raise UsageError(f"unknown host {host!r}", f"the only host is {LOCAL!r}, this machine")
    return LocalTransport()


def lease_folder() -> str:
    """Where the host keeps tickets and device locks: the same for every user of that host. `$RLX_LEASES` overrides."""
    return os.environ.get("RLX_LEASES") or "/var/tmp/rlx-leases"


def tmux_socket() -> str:
    """The name of the tmux server that holds the sessions of runs (`tmux -L`). `$RLX_TMUX_SOCKET` overrides."""
    return os.environ.get("RLX_TMUX_SOCKET") or "rlx"
