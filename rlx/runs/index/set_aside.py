"""Keep an index that cannot be used beside a new one: nothing else has all that is in it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from rlx.errors import RlxError

INDEX_FILE = "index.db"
_BESIDE = ("-journal", "-wal", "-shm")
"""What SQLite finds by the name of the file: without them it may be half of what it was."""


def set_aside(home: Path) -> Path | None:
    """Rename the index in `home`, whatever it is, and return where it is; None where there was none.

    Raises RlxError where that cannot be done.
    """
    index = home / INDEX_FILE
    try:
        if not os.path.lexists(index):
            return None
        with _locked(home):
            kept = next(name for name in _names(index) if not os.path.lexists(name))
            index.rename(kept)
            for ending in _BESIDE:
                with suppress(FileNotFoundError):
                    index.with_name(index.name + ending).rename(kept.with_name(kept.name + ending))
            return kept
    except OSError as error:
        raise RlxError(f"{index} cannot be renamed: {error.strerror}", "check that its folder is writable") from None


def _names(index: Path) -> Iterator[Path]:
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    yield index.with_name(f"{index.name}.{stamp}")
    yield from (index.with_name(f"{index.name}.{stamp}-{number}") for number in count(2))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def runs_in(copy: Path) -> Mapping[str, str]:
    """The hosts of the runs that this file names, by run id, as far as they can be read; nothing is written."""
    found: dict[str, str] = {}
    if copy.is_file():
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"{copy.absolute().as_uri()}?mode=ro", uri=True)) as db:
            for run_id, host in db.execute("SELECT run_id, host FROM runs"):
                found[str(run_id)] = str(host)
    return found
