"""The hosts that rlx knows, and where runs live on them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rlx.errors import UsageError
from rlx.plan import DEFAULT_LEASES, LOCAL, Site


def local_site() -> Site:
    """This machine, with the programs next to the Python that runs rlx. `$RLX_ROOT` and `$RLX_LEASES` override."""
    chosen = os.environ.get("RLX_ROOT")
    root = str(Path(chosen).expanduser().absolute()) if chosen else "~/rlx"
    leases = os.environ.get("RLX_LEASES") or DEFAULT_LEASES
    return Site(LOCAL, root=root, leases=leases, path_prefix=(str(Path(sys.executable).parent),))


def site_of(host: str) -> Site:
    """Raises UsageError for a host that rlx does not know."""
    if host != LOCAL.host:
        raise UsageError(f"unknown host {host!r}", f"the only host is {LOCAL.host!r}, this machine")
    return local_site()


def tmux_socket() -> str:
    """The name of the tmux server that holds the sessions of runs (`tmux -L`). `$RLX_TMUX_SOCKET` overrides."""
    return os.environ.get("RLX_TMUX_SOCKET") or "rlx"
