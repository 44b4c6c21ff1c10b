"""The format of all that is kept below `RLX_HOME/parsed`: a JSON document, followed by sections of bytes.

The document and each section have a checksum, so that only the used sections of a file are read, and damaged ones are
treated as absent. Sections are aligned to eight bytes: metric columns are used directly from the file.

Why not SQLite: for 100 runs of 10,000 steps and 100 metrics, reading a dozen columns of each took 0.19 s of CPU instead
of 0.05 s, which is within the budgets. But writing one run again took 0.06 s instead of 0.01 s, where one more megabyte
of log may cost 0.2 s in total; and freeing space took 4.4 s of CPU and half a minute (VACUUM of 800 MB), where files
are removed in 0.05 s.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

_HEAD = struct.Struct(">4sIQ")
"""Mark, checksum and length of the document, which follows."""
_MARK = b"rlx1"
_ALIGNED = 8


class Store(Protocol):
    """Where files of this format are kept, by name. Both methods may fail silently: a missing file only costs time."""

    def load(self, name: str) -> memoryview | None: ...

    def save(self, name: str, parts: Sequence[bytes]) -> None: ...


class SectionWriter:
    """Collects sections, and saves them with a document that refers to them by number."""

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self._places: list[list[int]] = []
        self._known: dict[bytes, int] = {}
        self._end = 0

    def add(self, data: bytes) -> int:
        """Add a section and return its number."""
        self._places.append([self._end, len(data), zlib.crc32(data)])
        self._data.append(_padded(data))
        self._end += len(self._data[-1])
        return len(self._places) - 1

    def share(self, data: Any) -> int:
        """Return the number of a section with these bytes; equal ones are stored once: most metrics share steps."""
        key = bytes(data)
        if key not in self._known:
            self._known[key] = self.add(key)
        return self._known[key]

    def save(self, store: Store, name: str, document: Mapping[str, Any]) -> None:
        text = _padded(json.dumps({**document, "sections": self._places}).encode(), b" ")
        store.save(name, [_HEAD.pack(_MARK, zlib.crc32(text), len(text)), text, *self._data])


def _padded(data: bytes, filler: bytes = b"\0") -> bytes:
    return data + filler * (-len(data) % _ALIGNED)


class Sections:
    """A kept file. Each section is checked when it is used."""

    def __init__(self, view: memoryview) -> None:
        """Raise ValueError for any other format, and where the document is damaged."""
        if len(view) < _HEAD.size:
            raise ValueError("too short")
        mark, checksum, length = _HEAD.unpack(view[: _HEAD.size])
        end = _HEAD.size + length
        text = bytes(view[_HEAD.size : end])
        if mark != _MARK or len(text) != length or zlib.crc32(text) != checksum:
            raise ValueError("of another version, or damaged")
        self.document: dict[str, Any] = json.loads(text)
        # The sections follow the document.
        self._view, self._start = view, end
        self._checked: dict[int, memoryview] = {}

    def section(self, number: int) -> memoryview:
        """Return the same object each time: equal steps are recognised by it. Raises ValueError if it is damaged."""
        if number not in self._checked:
            start, length, checksum = self.document["sections"][number]
            data = self._view[self._start + start : self._start + start + length]
            if len(data) != length or zlib.crc32(data) != checksum:
                raise ValueError("a section is damaged")
            self._checked[number] = data
        return self._checked[number]

    def check(self) -> None:
        """Check all sections now. Raises ValueError if one is damaged."""
        for number in range(len(self.document["sections"])):
            self.section(number)
        if isinstance(self._view.obj, mmap.mmap):
            # What was only checked shall not count as this process's memory.
            self._view.obj.madvise(mmap.MADV_DONTNEED)


def load_sections(store: Store, name: str) -> Sections | None:
    """Load what is kept under this name, if it has this format and its document is undamaged."""
    view = store.load(name)
    try:
        return None if view is None else Sections(view)
    except ValueError:
        return None
