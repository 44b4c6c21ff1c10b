"""Cache the states of parsers in `RLX_HOME/parsed`, so that only the end of a log of gigabytes is read again.

If it is removed, the next query takes longer. Files are replaced atomically, so that several rlx may use it at once,
and have the form of `rlx/evidence/cache/kept_sections.py`: a damaged file counts as missing.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import pickle
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlx.evidence.cache.kept_sections import SectionWriter, load_sections

MOST_BYTES = 2 << 30
MOST_DAYS = 30
_TIDY_EVERY = 8
"""The folder is tidied whenever an eighth of its size limit was written, since tidying lists all files."""


class ParsedFiles:
    """A cache of parser states by name. Never raises: what cannot be cached is parsed again."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._folder = home / "parsed"
        self._untidied: int | None = None

    def load(self, name: str) -> memoryview | None:
        """Map a file into memory; None if it cannot be read."""
        path = self._folder / name
        try:
            with path.open("rb") as file:
                view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            os.utime(path)
        except (OSError, ValueError):
            return None
        return view

    def save(self, name: str, parts: Sequence[bytes]) -> None:
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            aside = self._folder / f".{name}-{secrets.token_hex(4)}"
            with aside.open("wb") as file:
                file.writelines(parts)
            aside.replace(self._folder / name)
            self._tidy_at_times(sum(map(len, parts)))

    def cached(self, key: Any, inputs: Any, compute: Callable[[], Any]) -> Any:
        """Return a cached JSON value, or what `compute` returns.

        A `key` has one value at a time; `inputs` are everything else that the value depends on.
        """
        name, digest = _hashed(key)[:32], _hashed(inputs)
        kept = load_sections(self, name)
        if kept is not None and kept.document.get("of") == digest:
            return kept.document["value"]
        value = compute()
        SectionWriter().save(self, name, {"of": digest, "value": value})
        return value

    def _tidy_at_times(self, more: int) -> None:
        """Tidy up with the first file, and after each eighth of the limit."""
        if self._untidied is None or self._untidied + more > MOST_BYTES // _TIDY_EVERY:
            self._tidy_up()
            self._untidied = 0
        else:
            self._untidied += more

    def _tidy_up(self) -> None:
        """Remove files not used for a month, and the oldest ones beyond the limit."""
        seen = sorted(((path, path.stat()) for path in self._folder.iterdir()), key=lambda each: -each[1].st_mtime)
        oldest, total = time.time() - MOST_DAYS * 86400, 0
        for path, stat in seen:
            total += stat.st_size
            if total > MOST_BYTES or stat.st_mtime < oldest:
                path.unlink(missing_ok=True)


def _hashed(value: Any) -> str:
    return hashlib.sha256(pickle.dumps(value)).hexdigest()
