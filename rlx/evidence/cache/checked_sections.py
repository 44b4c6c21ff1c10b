"""Parts of one file, each with its checksum: those that nobody asks for are neither read nor checked."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

from rlx.evidence.reading.metric_table import NO_COLUMN, Column, MetricTable
from rlx.evidence.run_evidence import Evidence, NoiseEvent

Again = Callable[[], Evidence]
"""Reads the same files without what was kept of them."""


class Parts:
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
        """Share one copy of steps, because most metrics have the same."""
        key = bytes(data)
        if key not in self._known:
            self._known[key] = self.add(key)
        return self._known[key]


class Body:
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


class Columns(Mapping[str, Column]):
    """The columns by name, each read when somebody asks for it."""

    def __init__(self, places: Mapping[str, Sequence[int]], last: int, body: Body, again: Again) -> None:
        """`last`: the last step of the table, which may have grown when it is read again."""
        self._places, self._last, self._body, self._again = places, last, body, again
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
            found = fresh.columns.get(key, NO_COLUMN) if isinstance(fresh, MetricTable) else NO_COLUMN
            return found.until(self._last)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Events(Sequence[NoiseEvent]):
    """A tuple of events that is read when somebody looks into it."""

    def __init__(self, part: int, count: int, body: Body, again: Again) -> None:
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
