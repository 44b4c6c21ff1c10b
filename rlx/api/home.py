"""Name the folders that belong to this user on this machine: the index of runs and the log of bugs."""

from __future__ import annotations

import os
from pathlib import Path

from rlx.errors import RlxError


def rlx_home() -> Path:
    """`$RLX_HOME`, else the XDG data folder. Raises RlxError for an account without a home directory."""
    home = os.environ.get("RLX_HOME") or f"{os.environ.get('XDG_DATA_HOME') or '~/.local/share'}/rlx"
    try:
        return Path(home).expanduser()
    except RuntimeError:
        raise RlxError(f"{home}: there is no such home directory", "set RLX_HOME to a folder of yours") from None
