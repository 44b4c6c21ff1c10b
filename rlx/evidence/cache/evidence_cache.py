"""Keep the evidence of a run as it was read, so that an unchanged run is not read again.

One file per run: its small fields are the document, the noise events and each metric column are sections that are read
on demand. It is valid for exactly the files that it was made from (`digest`). If a part of it is damaged, the run is
read again.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache, cached_property
from operator import attrgetter
from typing import Any, Union, get_args, get_origin, get_type_hints, overload

from rlx.evidence.cache.kept_sections import Sections, SectionWriter, Store, load_sections
from rlx.evidence.reading.metric_table import NO_COLUMN, MetricColumn, MetricTable, Steps
from rlx.evidence.run_evidence import Evidence, NoiseEvent

_LARGE = {"metrics", "noise"}
"""Fields that are sections of their own, each in its own form."""
_NEVER = {"digest", "missing", "conflicts", "settings", "reconfigured", "setting_mismatches"}
"""Fields that are no part of what was read from the files of a run."""
_SMALL = [field.name for field in fields(Evidence) if field.name not in _LARGE | _NEVER]
_event = attrgetter(*(field.name for field in fields(NoiseEvent)))
Again = Callable[[], Evidence]
"""Reads the same files without what was kept of them, where a part proves to be damaged."""


def keep(evidence: Evidence, name: str, digest: str, store: Store) -> None:
    """Save it for `kept`."""
    sections = SectionWriter()
    table = evidence.metrics if isinstance(evidence.metrics, MetricTable) else MetricTable()
    noise = sections.add(json.dumps([*map(_event, evidence.noise)]).encode())
    columns = {
        key: [sections.share(column.steps), sections.add(bytes(column.values))] for key, column in table.columns.items()
    }
    document = {
        "of": digest,
        "evidence": {field: _plain(getattr(evidence, field)) for field in _SMALL},
        "noise": [noise, len(evidence.noise)],
        "steps": sections.share(table.steps),
        "columns": columns,
    }
    sections.save(store, name, document)


def kept(name: str, digest: str, store: Store, again: Again) -> Evidence | None:
    """Return what was kept of exactly these files, if it is undamaged. `again` is called where a part is damaged."""
    found = load_sections(store, name)
    try:
        if found is None or found.document["of"] != digest:
            return None
        document, hints = found.document, _hints(Evidence)
        steps, (noise, count) = found.section(document["steps"]).cast("q"), document["noise"]
        small = {field: _typed(hints[field], document["evidence"][field]) for field in _SMALL}
        return Evidence(
            metrics=MetricTable(steps, Columns(document["columns"], steps[-1] if steps else 0, found, again)),
            noise=Events(noise, count, found, again),
            digest=digest,
            **small,
        )
    except (ValueError, KeyError, TypeError, IndexError):
        return None  # of another form, or damaged


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _plain(value: Any) -> Any:
    """Convert a value to lists, so that JSON keeps NaN, and numbers that are keys."""
    if is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, Mapping):
        return [[key, _plain(item)] for key, item in value.items()]
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _typed(hint: Any, data: Any) -> Any:
    """Convert the lists of `_plain` back to a value of this type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return None if data is None else _typed(next(arm for arm in arguments if arm is not type(None)), data)
    if origin is tuple:
        kinds = [arguments[0]] * len(data) if Ellipsis in arguments else arguments
        return tuple(_typed(kind, item) for kind, item in zip(kinds, data, strict=True))
    if origin is not None:
        return {key: _typed(arguments[1], item) for key, item in data}
    if issubclass(hint, StrEnum):
        return hint(data)
    if is_dataclass(hint) or issubclass(hint, tuple):
        return hint(*(_typed(kind, item) for kind, item in zip(_hints(hint).values(), data, strict=True)))
    return data


class Columns(Mapping[str, MetricColumn]):
    """The columns by name, each read when it is used."""

    def __init__(self, places: Mapping[str, Sequence[int]], last: int, kept: Sections, again: Again) -> None:
        """`last`: the last step of the table, which may have grown when it is read again."""
        self._places, self._last, self._kept, self._again = places, last, kept, again
        self._known: dict[str, MetricColumn] = {}

    def __getitem__(self, key: str) -> MetricColumn:
        if key not in self._known:
            steps, values = self._places[key]
            try:
                found = MetricColumn(self._kept.section(steps).cast("q"), self._kept.section(values).cast("d"))
            except ValueError:
                fresh = self._again().metrics
                columns = fresh.columns if isinstance(fresh, MetricTable) else {}
                found = columns.get(key, NO_COLUMN).until(self._last)
            self._known[key] = found
        return self._known[key]

    def step_lists(self, keys: Iterable[str]) -> list[Steps]:
        """Return the steps of these metrics, equal ones once, without reading their values."""
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
    """A tuple of events that is read when it is used."""

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
