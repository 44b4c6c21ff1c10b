"""The evidence of a run as it was read the last time, so that a run in which nothing has changed costs nothing.

One file a run: a line of JSON with its checksum, then the noise events and the metrics column by column, each with a
checksum of its own, of which only what somebody asks for is read. It counts for exactly the files it was made from,
by their times, sizes and inodes, and for this version of rlx. Where a part of it is damaged the run is read anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, fields
from functools import cache, cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol, overload

import rlx
from rlx.evidence import console, files
from rlx.evidence.saved import end_of_line
from rlx.evidence.table import NO_COLUMN, Column, MetricTable
from rlx.evidence.values import Announcement, Disagreement, Evidence, NoiseEvent, Progress, Restart, Totals

_FORMAT = 1
SETTLED_S = 2.0
"""A file that was written later than this may be written again without another time: clocks of disks are coarse."""
_FILES = ("log", "metrics.jsonl", "state/exit")
_FOLDERS = ("events", "validation")
_event = attrgetter(*(field.name for field in fields(NoiseEvent)))
Again = Callable[[], Evidence]
"""Reads the same files without what was kept of them."""


class Shelf(Protocol):
    """Where evidence is kept. Both may fail silently: what is gone only costs time."""

    def peek(self, name: str) -> memoryview | None: ...

    def save(self, name: str, parts: Sequence[bytes]) -> None: ...


def digest_of(attempt_dirs: Sequence[Path]) -> str:
    """`digest_of_files` for all that is evidence in these attempts."""
    return digest_of_files([path for folder in attempt_dirs for path in _evidence(folder)])


def _evidence(folder: Path) -> Iterator[str]:
    yield from (f"{folder}/{name}" for name in _FILES)
    for name in _FOLDERS:
        try:
            yield from sorted(f"{folder}/{name}/{each}" for each in os.listdir(folder / name))
        except OSError:
            continue


def digest_of_files(paths: Iterable[str | Path]) -> str:
    """What tells these files from all others and from what they were before; empty while they are just written.

    Another version of rlx would read them otherwise, so that it is a part of it.
    """
    seen = [_stat(path) for path in paths]
    if time.time_ns() - max((changed for *_, changed in seen), default=0) < SETTLED_S * 1e9:
        return ""
    rules = (_FORMAT, rlx.__version__, console.RULES, files.RULES, sys.byteorder, _sources())
    return hashlib.sha256(repr((rules, seen)).encode()).hexdigest()


def _stat(path: str | Path) -> tuple[str | int, int, int, int, int, int]:
    """A file by its inode, size, and the times when it was written and changed, this one last; zeros for none."""
    try:
        seen = os.stat(path)
    except OSError:
        return str(path), 0, 0, 0, 0, 0
    return str(path), seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


@cache
def _sources() -> tuple[tuple[str | int, ...], ...]:
    """The program itself: a checkout changes without another version."""
    folder = Path(rlx.__file__).parent
    found = [*folder.glob("evidence/**/*.py"), *folder.glob("plan/*.py")]
    return tuple(sorted((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in found))


def keep(evidence: Evidence, name: str, digest: str, shelf: Shelf) -> None:
    """Save it for `kept`."""
    parts, columns = _Parts(), dict[str, list[int]]()
    table = evidence.metrics if isinstance(evidence.metrics, MetricTable) else MetricTable()
    noise, steps = parts.add(json.dumps([*map(_event, evidence.noise)]).encode()), parts.shared(table.steps)
    for key, column in table.columns.items():
        columns[key] = [parts.shared(column.steps), parts.add(bytes(column.values))]
    document = {
        "of": digest,
        "evidence": _plain(evidence),
        "noise": [noise, len(evidence.noise)],
        "steps": steps,
        "columns": columns,
        "parts": parts.places,
    }
    head = json.dumps(document).encode()
    head += b" " * (-(len(head) + 10) % 8) + b"\n"
    shelf.save(name, [b"%08x " % zlib.crc32(head), head, *parts.data])


class _Parts:
    """Bytes one after the other, each from a multiple of eight on, with its place: [start, length, checksum]."""

    def __init__(self) -> None:
        self.data: list[bytes] = []
        self.places: list[list[int]] = []
        self._known: dict[bytes, int] = {}
        self._end = 0

    def add(self, data: bytes) -> int:
        self.places.append([self._end, len(data), zlib.crc32(data)])
        self.data.append(data + bytes(-len(data) % 8))
        self._end += len(self.data[-1])
        return len(self.places) - 1

    def shared(self, data: Any) -> int:
        """Most metrics have the same steps: one copy serves them all."""
        key = bytes(data)
        if key not in self._known:
            self._known[key] = self.add(key)
        return self._known[key]


def _plain(evidence: Evidence) -> dict[str, Any]:
    """What is small, as JSON."""
    return {
        "totals": astuple(evidence.totals),
        "progress": evidence.progress,
        "disagreements": [[each.step, each.key, each.sources, each.values] for each in evidence.disagreements],
        "restarts": [astuple(restart) for restart in evidence.restarts],
        "attempts": evidence.attempts,
        "answers": list(evidence.answers.items()),
        "announced": evidence.announced,
        "has_hole": evidence.has_hole,
        "unproven": evidence.unproven,
    }


def kept(name: str, digest: str, shelf: Shelf, again: Again) -> Evidence | None:
    """What was kept of exactly these files, if it is whole. `again` is called where a part proves to be damaged."""
    view = shelf.peek(name)
    try:
        return None if view is None else _unpacked(view, digest, again)
    except (ValueError, KeyError, TypeError, IndexError):
        return None  # of another version, of other files, or damaged


def _unpacked(view: memoryview, digest: str, again: Again) -> Evidence | None:
    end = end_of_line(view)
    head = bytes(view[9:end])
    if zlib.crc32(head) != int(bytes(view[:8]), 16):
        return None
    document = json.loads(head)
    if document["of"] != digest:
        return None
    body, plain, progress = _Body(view[end:], document["parts"]), document["evidence"], document["evidence"]["progress"]
    columns, (noise, count) = _Columns(document["columns"], body, again), document["noise"]
    return Evidence(
        metrics=MetricTable(body.part(document["steps"]).cast("q"), columns),
        noise=_Events(noise, count, body, again),
        totals=Totals(*plain["totals"]),
        progress=Progress(*progress) if progress else None,
        disagreements=tuple(
            Disagreement(step, key, (mine, theirs), (value, other))
            for step, key, (mine, theirs), (value, other) in plain["disagreements"]
        ),
        restarts=tuple(Restart(*values) for values in plain["restarts"]),
        attempts=plain["attempts"],
        answers=dict(plain["answers"]),
        announced=tuple(Announcement(*values) for values in plain["announced"]),
        has_hole=plain["has_hole"],
        unproven=plain["unproven"],
        digest=digest,
    )


class _Body:
    def __init__(self, data: memoryview, places: Sequence[Sequence[int]]) -> None:
        self._data, self._places = data, places
        self._checked: dict[int, memoryview] = {}

    def part(self, number: int) -> memoryview:
        """Raises ValueError if it is damaged. The same object each time, so that the same steps are known by it."""
        if number not in self._checked:
            start, length, checksum = self._places[number]
            data = self._data[start : start + length]
            if len(data) != length or zlib.crc32(data) != checksum:
                raise ValueError("a part is damaged")
            self._checked[number] = data
        return self._checked[number]


class _Columns(Mapping[str, Column]):
    """The columns by name, each read when somebody asks for it."""

    def __init__(self, places: Mapping[str, Sequence[int]], body: _Body, again: Again) -> None:
        self._places, self._body, self._again = places, body, again
        self._known: dict[str, Column] = {}

    def __getitem__(self, key: str) -> Column:
        if key not in self._known:
            self._known[key] = self._read(key)
        return self._known[key]

    def _read(self, key: str) -> Column:
        steps, values = self._places[key]
        try:
            return Column(self._body.part(steps).cast("q"), self._body.part(values).cast("d"))
        except ValueError:
            fresh = self._again().metrics
            return fresh.columns.get(key, NO_COLUMN) if isinstance(fresh, MetricTable) else NO_COLUMN

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _Events(Sequence[NoiseEvent]):
    """A tuple of events that is read when somebody looks into it."""

    def __init__(self, part: int, count: int, body: _Body, again: Again) -> None:
        self._part, self._count, self._body, self._again = part, count, body, again

    @cached_property
    def _all(self) -> tuple[NoiseEvent, ...]:
        try:
            return tuple(NoiseEvent(*values) for values in json.loads(bytes(self._body.part(self._part))))
        except (ValueError, TypeError):
            return tuple(self._again().noise)

    @overload
    def __getitem__(self, index: int) -> NoiseEvent: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[NoiseEvent]: ...

    def __getitem__(self, index: int | slice) -> NoiseEvent | Sequence[NoiseEvent]:
        return self._all[index]

    def __iter__(self) -> Iterator[NoiseEvent]:
        return iter(self._all)

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._all)
