"""Check each key that the plan sets against the configuration that the engine composed: RLX644.

A training program reads its configuration from files of its own and from the command line together, and writes down
what it composed before its trainer changes anything. Values are compared as Hydra reads them. Left out are values with
an interpolation, functions of Hydra's grammar, Hydra's own keys, and selections of configuration groups, which are no
keys of the configuration.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from rlx.evidence.charges.check_input import CheckInput
from rlx.evidence.verdict import Charge, invalid
from rlx.yaml_reader.hydra import REMOVED, bare_key, read_scalar

_SHOWN = 3
_LONGEST = 60
_ABSENT = object()
_FUNCTION = re.compile(r"[A-Za-z_]\w*\(.*\)", re.DOTALL)


def check(given: CheckInput) -> Iterator[Charge]:
    """Charge other settings, but not before the first step: the file may not be written to its end."""
    found = given.evidence.setting_mismatches
    if found and (given.state.is_terminal or given.evidence.metrics):
        more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        yield invalid(
            "RLX644",
            f"the engine composed other settings than the plan sets: {'; '.join(found[:_SHOWN])}{more}",
            "find what changes these keys after the command line, such as a file of the fork, or plan the values that "
            "it composes; launch again",
        )


def setting_mismatches(
    planned: Iterable[tuple[str, object]], composed: Mapping[str, Any], free: Collection[str] = ()
) -> Iterator[str]:
    """Say in words which keys have another value in the composed configuration, but for those in `free`.

    `planned`: keys with Hydra's prefixes, and their values, in the order in which they count.
    """
    for key, wanted, found in _differing("", tree_of(planned), composed):
        if key not in free and not _is_group(key, wanted, found):
            yield f"{key} planned {_short(wanted)}, composed {_short(found)}"


def tree_of(planned: Iterable[tuple[str, object]]) -> dict[str, Any]:
    """Make a tree of dotted keys with Hydra's prefixes, as Hydra composes them."""
    tree: dict[str, Any] = {}
    for written, value in planned:
        key = bare_key(written)
        if not _is_left_out(key):
            _put(tree, key.split("."), REMOVED if written.startswith("~") else value)
    return tree


def _is_left_out(key: str) -> bool:
    """Options, packages of groups and Hydra's own keys are no part of the composed configuration."""
    return key.startswith("-") or "@" in key or "/" in key or key.partition(".")[0] == "hydra"


def _is_group(key: str, wanted: object, found: object) -> bool:
    """Tell whether `key=name` selects a file of a group, whose content may lie in any place of the configuration."""
    is_name = wanted is None or isinstance(wanted, (str, list))
    return is_name and wanted is not REMOVED and (isinstance(found, Mapping) or (found is _ABSENT and "." not in key))


def _put(tree: dict[str, Any], path: list[str], value: object) -> None:
    """Set a key as OmegaConf does: a map changes the keys that it names, and anything else replaces what was there."""
    name, *below = path
    inner = tree.get(name)
    if not below and not isinstance(value, Mapping):
        tree[name] = value
        return
    if not isinstance(inner, dict):
        inner = tree[name] = {}
    if below:
        _put(inner, below, value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _put(inner, [str(key)], item)


def _differing(key: str, planned: object, composed: object) -> Iterator[tuple[str, object, object]]:
    if _is_interpolated(composed):
        return
    if isinstance(planned, dict) and (planned or isinstance(composed, Mapping)):
        for name, value in planned.items():
            yield from _differing(f"{key}.{name}" if key else name, value, _child(composed, name))
    elif planned is REMOVED:
        if composed is not _ABSENT:
            yield key, planned, composed
    elif not _is_same(planned, composed):
        yield key, planned, composed


def _child(composed: object, name: str) -> object:
    if isinstance(composed, Mapping):
        return next((value for key, value in composed.items() if str(key) == name), _ABSENT)
    if isinstance(composed, list) and name.isdecimal() and int(name) < len(composed):
        return composed[int(name)]
    return _ABSENT


def _is_same(planned: object, composed: object) -> bool:
    if _is_unknown(planned) or _is_interpolated(composed):
        return True
    if isinstance(planned, list) and isinstance(composed, list):
        return len(planned) == len(composed) and all(map(_is_same, planned, composed))
    if isinstance(planned, Mapping) and isinstance(composed, Mapping):
        items = planned.items()
        return len(planned) == len(composed) and all(_is_same(item, _child(composed, str(key))) for key, item in items)
    if isinstance(planned, str) != isinstance(composed, str):
        return _is_converted(planned, composed)
    both_nan = planned != planned and composed != composed
    return both_nan or planned == composed


def _is_converted(planned: object, composed: object) -> bool:
    """Tell whether a typed field of the configuration made one of the other: `yes` becomes true, and 5 a text."""
    if isinstance(planned, str):
        return composed is not None and read_scalar(planned) == composed
    return planned is not None and str(planned) == composed


def _is_unknown(planned: object) -> bool:
    return isinstance(planned, str) and (_is_interpolated(planned) or _FUNCTION.fullmatch(planned) is not None)


def _is_interpolated(value: object) -> bool:
    """Also of a value that is still missing."""
    return isinstance(value, str) and ("${" in value or value == "???")


def _short(value: object) -> str:
    if value is _ABSENT:
        return "(absent)"
    text = value if value is REMOVED else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
