"""Convert dataclasses to JSON and back, strictly.

An unknown field is an error, and so is a missing one without a default. A missing field that has a default was not
known to the rlx that wrote the file; the default says what that rlx did. A class whose form has changed has a method
`upgraded`, which returns an older form in that of now.

pydantic would do this too, but costs more start-up time than a whole `rlx status`.
"""

from __future__ import annotations

import math
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from rlx.errors import UsageError

T = TypeVar("T")
_PLAIN = (int, float, str)
_MOST = 1 << 63


def to_jsonable(value: Any) -> Any:
    """Convert dataclasses to objects, tuples to lists, enums to values; nan and inf, which JSON lacks, to null."""
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
    """Read what `to_jsonable` writes. Raises UsageError naming the place that does not fit."""
    return _read(cls, data, where or cls.__name__, None)  # type: ignore[no-any-return]


def salvage_jsonable(cls: type[T], data: Any, where: str) -> tuple[T, tuple[str, ...]]:
    """Read as much as can be, and name the places that could not: for what another version of rlx wrote.

    What is missing or does not fit is the field's default, which for a field without one is named like a misfit: None,
    empty or 0. Raises UsageError if there is no object at all.
    """
    unread: list[str] = []
    return _read(cls, data, where, unread), tuple(unread)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


@cache
def _names(cls: type) -> frozenset[str]:
    return frozenset(field.name for field in fields(cls))


@cache
def _required(cls: type) -> frozenset[str]:
    without = (each for each in fields(cls) if each.default is MISSING and each.default_factory is MISSING)
    return frozenset(each.name for each in without)


@cache
def _plain_kinds(cls: type) -> dict[str, frozenset[type]]:
    """Per field, the types whose values are read as they are: most values are, and a table of many runs has 100,000."""
    return {name: frozenset(_kinds(hint)) for name, hint in _hints(cls).items()}


def _kinds(hint: Any) -> Iterator[type]:
    if get_origin(hint) in (Union, types.UnionType):
        yield types.NoneType
        hint = _arm(hint)
    if hint in (bool, int, float, str):
        yield hint


def _is_plain(kinds: frozenset[type], value: Any) -> bool:
    """Return whether `_read` would return it unchanged."""
    kind = type(value)
    return kind in kinds and (kind is not int or -_MOST < value < _MOST)


def _read(hint: Any, data: Any, where: str, unread: list[str] | None) -> Any:
    origin = get_origin(hint)
    if hint is Any:
        return data
    if origin in (Union, types.UnionType):
        return None if data is None else _read(_arm(hint), data, where, unread)
    if origin is tuple:
        kind, found = get_args(hint)[0], _expect(list, data, where)
        if kind in _PLAIN and all(type(item) is kind for item in found):
            return tuple(found)  # a sigma for each of 10,000 steps
        return tuple(_read(kind, item, f"{where}[{i}]", unread) for i, item in enumerate(found))
    if origin is not None and issubclass(origin, Mapping):
        items = _expect(dict, data, where).items()
        return {key: _read(get_args(hint)[1], item, f"{where}.{key}", unread) for key, item in items}
    if is_dataclass(hint):
        return _read_dataclass(hint, _expect(dict, data, where), where, unread)  # type: ignore[arg-type]
    if issubclass(hint, Enum):
        try:
            return hint(data)
        except ValueError:
            raise UsageError(f"{where}: {data!r} is not one of {', '.join(str(e.value) for e in hint)}") from None
    return _expect(hint, data, where)


def _arm(union: Any) -> Any:
    """Return the type of an optional value if it is there."""
    return next(arm for arm in get_args(union) if arm is not type(None))


def _read_dataclass(cls: type, data: dict[str, Any], where: str, unread: list[str] | None) -> Any:
    if upgrade := getattr(cls, "upgraded", None):
        data = upgrade(data)
    hints, plain, names = _hints(cls), _plain_kinds(cls), _names(cls)
    if unread is not None:
        unread += [f"{where}.{name}" for name in sorted(data.keys() - names)]
        return _built(
            cls,
            **{
                field.name: data[field.name]
                if _is_plain(plain[field.name], data.get(field.name, data))
                else _salvage(field, hints[field.name], data, where, unread)
                for field in fields(cls)
            },
        )
    if wrong := sorted((data.keys() - names) | (_required(cls) - data.keys())):
        problem = "unknown" if wrong[0] in data else "missing"
        raise UsageError(f"{where}: {problem} field {wrong[0]!r}", "was this file written by another version of rlx?")
    return _built(
        cls,
        **{
            name: value if _is_plain(plain[name], value) else _read(hints[name], value, f"{where}.{name}", None)
            for name, value in data.items()
        },
    )


def _built(cls: type, **values: Any) -> Any:
    """Return the value. A class that checks what code gives it has a second way in for what a file holds."""
    return getattr(cls, "recorded", cls)(**values)


def _salvage(field: Field[Any], hint: Any, data: dict[str, Any], where: str, unread: list[str]) -> Any:
    place = f"{where}.{field.name}"
    if field.name in data:
        try:
            return _read(hint, data[field.name], place, unread)
        except UsageError:
            unread.append(place)
    if field.default is not MISSING:
        return field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    unread.extend([place] * (place not in unread))
    return _nothing(hint)


def _nothing(hint: Any) -> Any:
    origin = get_origin(hint)
    if hint is Any or origin in (Union, types.UnionType):
        return None
    if is_dataclass(hint):
        return _read_dataclass(hint, {}, "", [])  # type: ignore[arg-type]
    if origin is None and issubclass(hint, Enum):
        return next(iter(hint))
    return {} if origin is not None and issubclass(origin, Mapping) else (origin or hint)()


def _expect(kind: type, data: Any, where: str) -> Any:
    if type(data) is int and kind in (int, float) and abs(data) >= _MOST:
        raise UsageError(f"{where}: the number is larger than any that rlx writes")
    if kind is float and type(data) is int:
        return float(data)
    if type(data) is not kind:
        raise UsageError(f"{where}: expected {kind.__name__}, found {type(data).__name__}")
    return data
