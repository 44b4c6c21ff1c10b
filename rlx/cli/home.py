"""Where rlx keeps what belongs to this user on this machine: the index of runs and the log of bugs."""

from __future__ import annotations

import os
from pathlib import Path


def rlx_home() -> Path:
    """`$RLX_HOME`, else the XDG data folder."""
    if home := os.environ.get("RLX_HOME"):
        return Path(home).expanduser()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "rlx"
