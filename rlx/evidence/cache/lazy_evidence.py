"""Evidence that lies in a file, of which a part is read when somebody asks for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import overload

from rlx.evidence.cache.sections import Sections
from rlx.evidence.reading.metric_table import NO_COLUMN, Column, MetricTable, Steps
from rlx.evidence.run_evidence import Evidence, NoiseEvent

Again = Callable[[], Evidence]
"""Reads the same files without what was kept of them, where a part proves to be damaged."""


class Columns(Mapping[str, Column]):
    """The columns by name, each read when somebody asks for it."""

    def __init__(self, places: Mapping[str, Sequence[int]], last: int, kept: Sections, again: Again) -> None:
        """`last`: the last step of the table, which may have grown when it is read again."""
        self._places, self._last, self._kept, self._again = places, last, kept, again
        self._known: dict[str, Column] = {}

    def __getitem__(self, key: str) -> Column:
        if key not in self._known:
            self._known[key] = self._read(key)
        return self._known[key]

    def _read(self, key: str) -> Column:
        steps, values = self._places[key]
        try:
            return Column(self._kept.section(steps).cast("q"), self._kept.section(values).cast("d"))
        except ValueError:
            fresh = self._again().metrics
            found = fresh.columns.get(key, NO_COLUMN) if isinstance(fresh, MetricTable) else NO_COLUMN
            return found.until(self._last)

    def step_lists(self, keys: Iterable[str]) -> list[Steps]:
        """The steps of these metrics, equal ones once; their values are not read."""
        return [self._steps(key) for key in {self._places[key][0]: key for key in keys}.values()]

    def _steps(self, key: str) -> Steps:
        try:
            return self._kept.section(self._places[key][0]).cast("q")
        except ValueError:
            return self[key].steps

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Events(Sequence[NoiseEvent]):
    """A tuple of events that is read when somebody looks into it."""

    def __init__(self, section: int, count: int, kept: Sections, again: Again) -> None:
        self._section, self._count, self._kept, self._again = section, count, kept, again

    @cached_property
    def _all(self) -> tuple[NoiseEvent, ...]:
        try:
            return tuple(NoiseEvent(*values) for values in json.loads(bytes(self._kept.section(self._section))))
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
