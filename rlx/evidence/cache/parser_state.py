"""Continue parsing where it stopped: keep what a parser knows after a number of bytes of a file.

A kept state is valid only for the file it was made from: same inode, at least as long, the same bytes at the beginning
and before the offset, and not rewritten at the same length. In all other cases the file is read again.

The columns of the metrics are sections of the file in their format in memory, so that loading copies nothing.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

import rlx
from rlx.evidence.cache.kept_sections import Sections, SectionWriter, Store, load_sections
from rlx.evidence.reading.metric_table import MetricColumn, MetricTable
from rlx.evidence.reading.scan import CHUNK_BYTES
from rlx.evidence.reading.timeline import Timeline

WORTH_BYTES = 256 << 10
"""Less than this is read as fast as its state."""
_FORMAT = 1
_SAMPLE_BYTES = 16 << 10


class Parser(Protocol):
    """Reads a growing file in pieces of any size. `rules` changes whenever it would read the same bytes differently."""

    rules: str
    timeline: Timeline

    def feed(self, data: bytes) -> None: ...

    @property
    def pending(self) -> int:
        """The number of bytes at the end that are not read yet, because their line has no end."""

    def state(self) -> dict[str, Any]:
        """Return its state as JSON, without the metrics of the timeline."""

    def restore(self, state: Mapping[str, Any]) -> None: ...


P = TypeVar("P", bound=Parser)


def parse_file(path: Path, new: Callable[[], P], states: Store | None = None, *, grows: bool = True) -> P:
    """Parse all complete lines of a file; of lines that were read before, only the metrics are loaded. Raises OSError.

    `grows`: False for a file that will not grow; its state is not saved.
    """
    with path.open("rb", buffering=0) as stream:
        name = _name_of(stream, new().rules)
        parser, offset = _resumed(stream, new, load_sections(states, name)) if states else (new(), 0)
        stream.seek(offset)
        while chunk := stream.read(CHUNK_BYTES):
            parser.feed(chunk)
        end = stream.tell() - parser.pending
        if states and grows and end - offset >= WORTH_BYTES:
            _save(states, name, parser, _identity(stream, end), _written(stream))
    return parser


def _resumed(stream: BinaryIO, new: Callable[[], P], kept: Sections | None) -> tuple[P, int]:
    """Return a parser that knows the first bytes of the file, and how many."""
    if kept is not None:
        try:
            return _unpacked(stream, new(), kept)
        except (ValueError, KeyError, TypeError, IndexError):
            pass  # of another version, of another file, or damaged
    return new(), 0


def _name_of(stream: BinaryIO, rules: str) -> str:
    """Name it by its inode: an imported log is read first, and gets its path later."""
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


def _save(store: Store, name: str, parser: Parser, identity: list[Any], written: list[int]) -> None:
    table, sections = parser.timeline.steps, SectionWriter()
    columns = {
        key: [sections.share(column.steps), sections.add(bytes(column.values))] for key, column in table.columns.items()
    }
    steps = sections.share(table.steps)
    document = {"of": identity, "written": written, "state": parser.state(), "steps": steps, "columns": columns}
    sections.save(store, name, document)


def _unpacked(stream: BinaryIO, parser: P, kept: Sections) -> tuple[P, int]:
    """Restore a state. Raises ValueError, KeyError, TypeError or IndexError if it is damaged or not of this file."""
    document = kept.document
    end = document["of"][5]
    (size, time), (size_now, time_now) = document["written"], _written(stream)
    if document["of"] != _identity(stream, end) or (size == size_now and time != time_now):
        raise ValueError("the state is of another file")
    kept.check()
    columns = {
        sys.intern(key): MetricColumn(kept.section(steps).cast("q"), kept.section(values).cast("d"))
        for key, (steps, values) in document["columns"].items()
    }
    parser.timeline.steps = MetricTable(kept.section(document["steps"]).cast("q"), columns)
    parser.restore(document["state"])
    return parser, end
