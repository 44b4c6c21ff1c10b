"""The evidence of a run as it was read the last time, so that a run in which nothing has changed costs nothing.

One file a run: its small fields as the document, the noise events and the metrics column by column as sections. It
counts for exactly the files it was made from (`digest`). Where a part of it is damaged the run is read anew.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import Any, Union, get_args, get_origin, get_type_hints

from rlx.evidence.cache.lazy_evidence import Again, Columns, Events
from rlx.evidence.cache.sections import Sections, SectionWriter, Store, load_sections
from rlx.evidence.reading.metric_table import MetricTable
from rlx.evidence.run_evidence import Evidence, NoiseEvent

_LARGE = {"metrics", "noise"}
"""Fields that are sections of their own, each in its own form."""
_NEVER = {"digest", "missing", "conflicts", "settings", "reconfigured", "setting_mismatches"}
"""Fields that are no part of what was read from the files of a run."""
_SMALL = [field.name for field in fields(Evidence) if field.name not in _LARGE | _NEVER]
_event = attrgetter(*(field.name for field in fields(NoiseEvent)))


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
    """Return what was kept of exactly these files, if it is whole. `again` is called where a part is damaged."""
    found = load_sections(store, name)
    try:
        return _unpacked(found, again) if found and found.document["of"] == digest else None
    except (ValueError, KeyError, TypeError, IndexError):
        return None  # of another form, or damaged


def _unpacked(found: Sections, again: Again) -> Evidence:
    document, hints = found.document, _hints(Evidence)
    steps, (noise, count) = found.section(document["steps"]).cast("q"), document["noise"]
    small = {field: _typed(hints[field], document["evidence"][field]) for field in _SMALL}
    return Evidence(
        metrics=MetricTable(steps, Columns(document["columns"], steps[-1] if steps else 0, found, again)),
        noise=Events(noise, count, found, again),
        digest=document["of"],
        **small,
    )


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _plain(value: Any) -> Any:
    """A value as lists, so that JSON keeps what it is: also NaN, and numbers that are keys."""
    if is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, Mapping):
        return [[key, _plain(item)] for key, item in value.items()]
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _typed(hint: Any, data: Any) -> Any:
    """The inverse of `_plain` for a value of this type."""
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
