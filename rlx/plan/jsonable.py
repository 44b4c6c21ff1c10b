"""Dataclasses to JSON and back, strictly: an unknown or missing field is an error, never a silent default.

pydantic would do this too, but costs more start-up time than a whole `rlx status`.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from rlx.errors import UsageError

T = TypeVar("T")


def to_jsonable(value: Any) -> Any:
    """Dataclasses as objects, tuples as lists, enums as their values; nan and inf, which JSON lacks, as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_jsonable(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.value if isinstance(value, Enum) else value


def from_jsonable(cls: type[T], data: Any, where: str = "") -> T:
    """The inverse of to_jsonable. Raises UsageError naming the place that does not fit."""
    return _read(cls, data, where or cls.__name__)  # type: ignore[no-any-return]


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _read(hint: Any, data: Any, where: str) -> Any:
    origin = get_origin(hint)
    if hint is Any:
        return data
    if origin in (Union, types.UnionType):
        return _read_union(hint, data, where)
    if origin is tuple:
        return tuple(
            _read(get_args(hint)[0], item, f"{where}[{i}]") for i, item in enumerate(_expect(list, data, where))
        )
    if origin is not None and issubclass(origin, Mapping):
        item_hint = get_args(hint)[1]
        return {key: _read(item_hint, item, f"{where}.{key}") for key, item in _expect(dict, data, where).items()}
    if is_dataclass(hint):
        return _read_dataclass(hint, data, where)  # type: ignore[arg-type]
    if issubclass(hint, Enum):
        return _read_enum(hint, data, where)
    return _expect(hint, data, where)


def _read_union(hint: Any, data: Any, where: str) -> Any:
    if data is None:
        return None
    return _read(next(arm for arm in get_args(hint) if arm is not type(None)), data, where)


def _read_enum(hint: type[Enum], data: Any, where: str) -> Enum:
    try:
        return hint(data)
    except ValueError:
        raise UsageError(f"{where}: {data!r} is not one of {', '.join(str(e.value) for e in hint)}") from None


def _read_dataclass(cls: type, data: Any, where: str) -> Any:
    data = _expect(dict, data, where)
    hints = _hints(cls)
    names = {field.name for field in fields(cls)}
    if wrong := sorted(names ^ data.keys()):
        problem = "unknown" if wrong[0] in data else "missing"
        raise UsageError(f"{where}: {problem} field {wrong[0]!r}", "was this file written by another version of rlx?")
    return cls(**{name: _read(hints[name], data[name], f"{where}.{name}") for name in names})


def _expect(kind: type, data: Any, where: str) -> Any:
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is not kind:
        raise UsageError(f"{where}: expected {kind.__name__}, found {type(data).__name__}")
    return data
