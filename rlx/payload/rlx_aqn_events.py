"""The record of what the noise did: one file a process, one line of JSON a call."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Event:
    """What one call did.

    `effective_std` is the root mean square of what the weights really moved by, `asked_std` of the sigmas with their
    multipliers: they differ by what rounding took or added. `fingerprint` names the noise that was drawn.
    """

    phase: str
    step: int
    sigma: float
    replica: int
    layers: int = 0
    skipped: int = 0
    elements: int = 0
    changed: int = 0
    effective_std: float = 0.0
    asked_std: float = 0.0
    dtypes: tuple[str, ...] = ()
    fingerprint: str = ""
    restored: int = 0


def append(path: Path, kind: str, content: dict[str, object]) -> None:
    """Append one record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"kind": kind, **content, "time": time.time()}) + "\n"
    # One write to a file opened for appending: a reader never sees half of a line of ours. The umask decides who
    # may read it: root in a container writes for a user of the host.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
