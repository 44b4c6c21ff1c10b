"""Store metrics by step, column by column: 10,000 steps of 100 metrics take 16 MB, as dictionaries 90 MB."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from itertools import repeat
from typing import NamedTuple, TypeAlias

Steps: TypeAlias = "array[int] | memoryview[int]"
Values: TypeAlias = "array[float] | memoryview[float]"


class MetricColumn(NamedTuple):
    """One metric: its value at each of its steps, ascending. Memory views are loaded columns, which never change."""

    steps: Steps
    values: Values

    def at(self, step: int) -> float | None:
        place = bisect_left(self.steps, step)
        return self.values[place] if place < len(self.steps) and self.steps[place] == step else None

    def until(self, step: int) -> MetricColumn:
        end = bisect_right(self.steps, step)
        return MetricColumn(self.steps[:end], self.values[:end])

    def has_same_steps(self, other: MetricColumn) -> bool:
        same_length = len(self.steps) == len(other.steps)
        return same_length and (self.steps is other.steps or bytes(self.steps) == bytes(other.steps))

    def equals(self, other: MetricColumn) -> bool:
        """Compare to the last bit: also where both have NaN."""
        return self.has_same_steps(other) and bytes(self.values) == bytes(other.values)


# Views, so that they are never added to.
NO_COLUMN = MetricColumn(memoryview(b"").cast("q"), memoryview(b"").cast("d"))


class _PendingRows:
    """Steps that all have the same metrics, not yet added to the columns."""

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        self.names = names
        self.steps, self.values = array("q"), array("d")

    def fit(self, step: int, values: Mapping[str, float]) -> bool:
        return bool(self.steps) and self.steps[-1] < step and tuple(values) == self.names

    def add(self, step: int, values: Mapping[str, float]) -> None:
        self.steps.append(step)
        self.values.extend(values.values())


class MetricTable(Mapping[int, Mapping[str, float]]):
    """step -> metric -> value, steps ascending; reading a metric (`series`) is fast, reading a step is not."""

    def __init__(self, steps: Steps | None = None, columns: Mapping[str, MetricColumn] | None = None) -> None:
        self._steps: Steps = array("q") if steps is None else steps
        self._columns: Mapping[str, MetricColumn] = {} if columns is None else columns
        self._rows_to_come = _PendingRows()

    @property
    def steps(self) -> Steps:
        self._take_rows()
        return self._steps

    @property
    def columns(self) -> Mapping[str, MetricColumn]:
        self._take_rows()
        return self._columns

    def series(self, key: str) -> dict[int, float]:
        """Return step -> value of one metric."""
        column = self.columns.get(key)
        return dict(zip(column.steps, column.values, strict=True)) if column else {}

    def put(self, step: int, values: Mapping[str, float]) -> None:
        """Add values to the last step, or as a later one."""
        if self._rows_to_come.fit(step, values):
            self._rows_to_come.add(step, values)
        elif not self.steps or self.steps[-1] < step:
            self._rows_to_come = _PendingRows(tuple(values))
            self._rows_to_come.add(step, values)
        else:
            for key, value in values.items():
                known, series = self._growing(key)
                if known and known[-1] == step:
                    series[-1] = value
                else:
                    known.append(step)
                    series.append(value)

    def _take_rows(self) -> None:
        """Add the pending rows to the columns: many rows at once take a tenth of the time."""
        rows = self._rows_to_come
        if not rows.steps:
            return
        self._rows_to_come = _PendingRows()
        self._steps = self._steps if isinstance(self._steps, array) else array("q", self._steps)
        self._steps.extend(rows.steps)
        for place, key in enumerate(rows.names):
            known, series = self._growing(key)
            known.extend(rows.steps)
            series.extend(rows.values[place :: len(rows.names)])

    def _growing(self, key: str) -> tuple[array[int], array[float]]:
        steps, values = self.columns.get(key, NO_COLUMN)
        if isinstance(steps, array) and isinstance(values, array):
            return steps, values
        grown = array("q", steps), array("d", values)
        self._columns = self._columns if isinstance(self._columns, dict) else dict(self._columns)
        self._columns[sys.intern(key)] = MetricColumn(*grown)
        return grown

    def until(self, step: int) -> MetricTable:
        """Copy it up to `step`; adding to the copy does not change this one."""
        cut = {key: column.until(step) for key, column in self.columns.items()}
        return MetricTable(
            self.steps[: bisect_right(self.steps, step)], {key: column for key, column in cut.items() if column.steps}
        )

    def updated(self, other: MetricTable) -> MetricTable:
        """Join the values of `other`, which replace its own. Shares columns with both: do not add to the result."""
        if not self.steps or not other.steps:
            return self if self.steps else other
        steps = array("q", sorted({*self.steps, *other.steps}))
        return MetricTable(steps, {**self.columns, **dict(self._columns_with(other))})

    def _columns_with(self, other: MetricTable) -> Iterator[tuple[str, MetricColumn]]:
        for key, column in other.columns.items():
            mine = self.columns.get(key)
            if mine is None or mine.has_same_steps(column):
                yield key, column
            else:
                both = sorted((self.series(key) | other.series(key)).items())
                yield (
                    key,
                    MetricColumn(array("q", (step for step, _ in both)), array("d", (value for _, value in both))),
                )

    def forms(self) -> list[tuple[str, ...]]:
        """Return the names in the line of each step, in the order of the columns."""
        groups: dict[bytes, int] = {}
        held = dict.fromkeys(self.steps, 0)
        names: list[tuple[str, int]] = []
        for key, column in self.columns.items():
            steps = bytes(column.steps)
            if steps not in groups:
                groups[steps] = 1 << len(groups)
                held |= {step: held[step] | groups[steps] for step in column.steps}
            names.append((key, groups[steps]))
        kinds = {kind: tuple(key for key, group in names if group & kind) for kind in set(held.values())}
        return [kinds[kind] for kind in held.values()]

    def __iter__(self) -> Iterator[int]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __contains__(self, step: object) -> bool:
        if not isinstance(step, int):
            return False
        place = bisect_left(self.steps, step)
        return place < len(self.steps) and self.steps[place] == step

    def __getitem__(self, step: int) -> dict[str, float]:
        if step not in self:
            raise KeyError(step)
        found = {key: column.at(step) for key, column in self.columns.items()}
        return {key: value for key, value in found.items() if value is not None}

    def items(self) -> ItemsView[int, Mapping[str, float]]:
        return self._rows().items()

    def values(self) -> ValuesView[Mapping[str, float]]:
        return self._rows().values()

    def _rows(self) -> dict[int, Mapping[str, float]]:
        rows: dict[int, dict[str, float]] = {step: {} for step in self.steps}
        for key, (steps, values) in self.columns.items():
            for step, name, value in zip(steps, repeat(key), values, strict=False):
                rows[step][name] = value
        return dict(rows)

    def __repr__(self) -> str:
        return repr(self._rows())
