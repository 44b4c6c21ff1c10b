"""The record of what the noise did: one file a process, one numbered line of JSON a call."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """Whose weights these are: replica, data-parallel shard there, tensor rank there, node of the run; all from 0."""

    replica: int = 0
    shard: int = 0
    rank: int = 0
    node: int = 0


@dataclass(frozen=True)
class Event:
    """What one call did.

    `effective_std` is the root mean square of what the weights really moved by, `asked_std` of the sigmas with their
    multipliers: they differ by what rounding took or added. `fingerprint` names the noise that was drawn. `restored`:
    how many weights still carried the noise of before and were put back, in the sync or in this call.

    `synced`: weights were received since the call before. Digests of the layers that take noise: `digest_before` first
    thing in the sync, `digest_clean` after receiving and restoring, `digest_after` at the end; "" where there is none.
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
    synced: bool = False
    digest_before: str = ""
    digest_clean: str = ""
    digest_after: str = ""


class Writer:
    """Appends to one file. Each line says whose it is and which one it is, so that a lost or doubled one shows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = 0
        self._owner = os.getpid()
        atexit.register(self._end)

    def append(self, kind: str, process: Process, content: Mapping[str, object]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._write({"kind": kind, "seq": self._lines, "process": asdict(process), **content})

    def _end(self) -> None:
        """Say how many lines there are. A process that is killed says nothing, and what is gone stays gone."""
        if self._lines and self._owner == os.getpid() and self._path.exists():
            with contextlib.suppress(OSError):
                self._write({"kind": "end", "seq": self._lines, "count": self._lines + 1})

    def _write(self, document: Mapping[str, object]) -> None:
        line = json.dumps({**document, "time": time.time()}) + "\n"
        # One write to a file opened for appending: a reader never sees half of a line of ours. The umask decides who
        # may read it: root in a container writes for a user of the host.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
        self._lines += 1


def events_file() -> Path:
    """Where this process of a run writes."""
    return Path(os.environ["RLX_ATTEMPT_DIR"], "events", f"aqn-{socket.gethostname()}-{os.getpid()}.jsonl")


@functools.cache
def writer(path: Path) -> Writer:
    """Return the process's only writer for this file: lines of all its parts are counted together."""
    return Writer(path)
