"""Translate renamed keys of recipes: the old name is still read, a finding names it, and digests do not change.

Beside the new name itself, a rename needs one row here. The table serves recipes, `extends`, arms and `--set`, recipes
in plans and manifests of earlier versions, digests of registered experiments, and the schema for editors.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RenamedKey:
    """Two dotted keys. `since`: the version of rlx that has the new one."""

    old: str
    new: str
    since: str


RENAMED: tuple[RenamedKey, ...] = ()
"""All renames, the oldest first, since a key may be renamed again."""


def first_names(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a recipe with the first name of each key, which is the one in digests."""
    return _moved(document, [(row.new, row.old) for row in reversed(RENAMED)])


def current_names(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a recipe with the current name of each key."""
    return _moved(document, [(row.old, row.new) for row in RENAMED])


def current_key(key: str) -> str:
    """Return the current name of a dotted key."""
    for row in RENAMED:
        key = _replaced(key, row.old, row.new)
    return key


def first_key(key: str) -> str:
    """Return the first name of a dotted key."""
    for row in reversed(RENAMED):
        key = _replaced(key, row.new, row.old)
    return key


def _replaced(key: str, source: str, target: str) -> str:
    return target + key.removeprefix(source) if f"{key}.".startswith(f"{source}.") else key


def _moved(document: Mapping[str, Any], pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the document with values moved between dotted keys; sections that this leaves empty are removed."""
    own: dict[str, Any] = copy.deepcopy(dict(document))
    for source, target in pairs:
        *above, key = source.split(".")
        holder = _section(own, above)
        if key in holder:
            value = holder.pop(key)
            if not holder and above:
                _section(own, above[:-1]).pop(above[-1])
            *above, key = target.split(".")
            _section(own, above, make=True)[key] = value
    return own


def _section(document: dict[str, Any], keys: Sequence[str], *, make: bool = False) -> dict[str, Any]:
    """Return the map at the keys; where there is none, a new one, which is part of the document with `make` only."""
    for key in keys:
        below = document.get(key)
        if not isinstance(below, dict):
            below = {}
            if make:
                document[key] = below
        document = below
    return document
