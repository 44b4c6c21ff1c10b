"""Read the configuration that a training program prints at its start, because a foreign run has no other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlx.evidence.grammars import grammars
from rlx.local_files import open_regular

# It comes before the model is loaded, and takes a thousand lines.
_HEAD_BYTES = 8 << 20
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def read_printed_config(log: Path) -> Mapping[str, Any]:
    """The configuration as a tree; empty where the log has none that can be read."""
    try:
        with open_regular(log) as stream:
            text = stream.read(_HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return {}
    return printed_config(text)


def printed_config(text: str) -> Mapping[str, Any]:
    """The same of the text of a log."""
    lines = _ANSI.sub("", text).splitlines()
    return next((tree for each in grammars() if (tree := each.printed_configuration(lines))), {})
