"""Translate names of settings between versions of verl. Source: the configuration trees and `main_ppo` of each version.

A row of `renames.json` lists the names of one setting, oldest first; a name may be a section. verl keeps some old
names in its configuration: 0.7 and 0.8 move their values to the new place, from `ignored_from` on nothing reads them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rlx.backends.shared.key_table import KeyTable
from rlx.backends.verl.keys import release

_FILE = Path(__file__).parent / "renames.json"


@dataclass(frozen=True, slots=True)
class Rename:
    """The name that this version reads, and whether it still reads the one that was written."""

    new: str
    ignored: bool


def find_rename(key: str, table: KeyTable, version: str) -> Rename | None:
    """The name of `key` in this version, if it is another one."""
    for row in _rows()["names"]:
        if (written := _name_in(row["names"], key)) is None:
            continue
        suffix = key[len(written) :]
        known = [name + suffix for name in row["names"] if name + suffix in table]
        if known and known[-1] != key:
            return Rename(known[-1], key not in table or _reached(version, row.get("ignored_from")))
    return None


def removed_value(key: str, value: object, version: str) -> str | None:
    """Say what to do instead, if this version no longer takes `value` for `key`."""
    rows = (row for row in _rows()["removed_values"] if (row["key"], row["value"]) == (key, value))
    return next((row["fix"] for row in rows if _reached(version, row["from"])), None)


@cache
def _rows() -> Mapping[str, Any]:
    rows: Mapping[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return rows


def _name_in(names: Sequence[str], key: str) -> str | None:
    return next((name for name in names if key == name or key.startswith(f"{name}.")), None)


def _reached(version: str, start: str | None) -> bool:
    return start is not None and release(version) >= release(start)
