"""The ssh config that every connection reads."""

from __future__ import annotations

import os
from pathlib import Path


def ssh_config() -> str | None:
    """Name another ssh config than the user's: `$RLX_SSH_CONFIG`."""
    chosen = os.environ.get("RLX_SSH_CONFIG")
    return str(Path(chosen).expanduser().absolute()) if chosen else None
