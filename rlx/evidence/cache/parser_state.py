"""Parsing that goes on where it ended: what a parser knew after so many bytes of a file, kept for the next look.

A kept state counts only for the file it was made from: same inode, at least as long, the same bytes at the beginning
and before the offset, and not written to without growing. Whatever is wrong with it, the file is read anew.

A state is one line of JSON, blanks up to a multiple of eight bytes, and the columns of the metrics as they are in
memory, so that loading copies nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

import rlx
from rlx.evidence.reading.metric_table import Column, MetricTable
from rlx.evidence.reading.scan import CHUNK_BYTES
from rlx.evidence.reading.timeline import Timeline

WORTH_BYTES = 256 << 10
"""Less than this is read as fast as its state."""
_FORMAT = 1
_SAMPLE_BYTES = 16 << 10


class Parser(Protocol):
    """Reads a file that grows, in pieces of any size. `rules` changes where it would read the same bytes otherwise."""

    rules: str
    timeline: Timeline

    def feed(self, data: bytes) -> None: ...

    @property
    def pending(self) -> int:
        """The number of bytes at the end that are not read yet, since their line has no end."""

    def state(self) -> dict[str, Any]:
        """All that it knows but the metrics of the timeline, as JSON."""

    def restore(self, state: Mapping[str, Any]) -> None: ...


class States(Protocol):
    """The place where states are kept. Both may fail silently: a state that is gone only costs time."""

    def load(self, name: str) -> memoryview | None: ...

    def save(self, name: str, parts: Sequence[bytes]) -> None: ...


P = TypeVar("P", bound=Parser)


def parse_file(path: Path, new: Callable[[], P], states: States | None = None, *, grows: bool = True) -> P:
    """All complete lines of a file, of those that were read before only the metrics. Raises OSError.

    `grows`: nothing is saved of a file to which nothing will be added.
    """
    with path.open("rb", buffering=0) as stream:
        name = _name_of(stream, new().rules)
        parser, offset = _resumed(stream, new, states.load(name)) if states else (new(), 0)
        stream.seek(offset)
        while chunk := stream.read(CHUNK_BYTES):
            parser.feed(chunk)
        end = stream.tell() - parser.pending
        if states and grows and end - offset >= WORTH_BYTES:
            states.save(name, _packed(parser, _identity(stream, end), _written(stream)))
    return parser


def _resumed(stream: BinaryIO, new: Callable[[], P], kept: memoryview | None) -> tuple[P, int]:
    """A parser that knows the first so many bytes of the file."""
    if kept is not None:
        try:
            return _unpacked(stream, new(), kept)
        except (ValueError, KeyError, TypeError, IndexError):
            pass  # of another version, of another file, or damaged
    return new(), 0


def _name_of(stream: BinaryIO, rules: str) -> str:
    """Name it by its inode: a log that is taken in is read first, and gets its path later."""
    seen = os.fstat(stream.fileno())
    return hashlib.sha256(f"{seen.st_dev} {seen.st_ino} {rules}".encode()).hexdigest()[:32]


def _identity(stream: BinaryIO, end: int) -> list[Any]:
    """Identify the first `end` bytes of a file. Raises ValueError if there are not as many."""
    seen = os.fstat(stream.fileno())
    if seen.st_size < end:
        raise ValueError("the file is shorter now")
    digest = hashlib.sha256()
    for start in (0, max(0, end - _SAMPLE_BYTES)):
        stream.seek(start)
        digest.update(stream.read(min(_SAMPLE_BYTES, end - start)))
    return [_FORMAT, rlx.__version__, sys.byteorder, seen.st_dev, seen.st_ino, end, digest.hexdigest()]


def _written(stream: BinaryIO) -> list[int]:
    seen = os.fstat(stream.fileno())
    return [seen.st_size, seen.st_mtime_ns]


def _packed(parser: Parser, identity: list[Any], written: list[int]) -> list[bytes]:
    table, places, parts, length = parser.timeline.steps, dict[bytes, int](), list[bytes](), 0
    columns: dict[str, list[int]] = {}

    def place(data: bytes) -> int:
        nonlocal length
        if data not in places:
            places[data] = length
            parts.append(data)
            length += len(data)
        return places[data]

    # Most metrics have the same steps: one copy serves them all.
    steps = [place(bytes(table.steps)), len(table.steps)]
    for key, column in table.columns.items():
        columns[key] = [place(bytes(column.steps)), place(bytes(column.values)), len(column.steps)]
    document = {"of": identity, "written": written, "state": parser.state(), "steps": steps, "columns": columns}
    head = json.dumps(document).encode()
    return [head + b" " * (-(len(head) + 1) % 8) + b"\n", *parts]


def _unpacked(stream: BinaryIO, parser: P, kept: memoryview) -> tuple[P, int]:
    """Raises ValueError, KeyError, TypeError or IndexError for a state that is not of this file."""
    head = bytes(kept[: end_of_line(kept)])
    document, body = json.loads(head), kept[len(head) :]
    end = document["of"][5]
    (size, time), (size_now, time_now) = document["written"], _written(stream)
    if document["of"] != _identity(stream, end) or (size == size_now and time != time_now):
        raise ValueError("the state is of another file")
    columns = {
        sys.intern(key): Column(_view(body, steps, count).cast("q"), _view(body, values, count).cast("d"))
        for key, (steps, values, count) in document["columns"].items()
    }
    parser.timeline.steps = MetricTable(_view(body, *document["steps"]).cast("q"), columns)
    parser.restore(document["state"])
    return parser, end


def end_of_line(kept: memoryview) -> int:
    """Find where the rest begins after the first line. Raises ValueError for one line."""
    # In small bites: what is looked at of a mapped file counts as this process's memory.
    for start in range(0, len(kept), _SAMPLE_BYTES):
        if (found := bytes(kept[start : start + _SAMPLE_BYTES]).find(b"\n")) >= 0:
            return start + found + 1
    raise ValueError("no head")


def _view(body: memoryview, start: int, count: int) -> memoryview:
    if start % 8 or start + 8 * count > len(body):
        raise ValueError("shorter than its head says")
    return body[start : start + 8 * count]
