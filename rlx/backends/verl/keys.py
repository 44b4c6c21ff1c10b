"""Look up the configuration keys that a version of verl knows, and the one that a misspelt key probably means.

A table comes from the version's own configuration tree: shipped ones are in `keys/<version>/`, and a fork's tree is
read where the recipe says (`backend.key_source`). A key outside the table is refused by Hydra itself, minutes later.
A row of `renames.json` lists the names of one setting, oldest first; a name may be a section. verl keeps some old names
in its configuration: 0.7 and 0.8 move their values to the new place, from `ignored_from` on nothing reads them. Source:
the configuration trees and `main_ppo` of each version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rlx.backends.shared.rendering import KeyTable
from rlx.backends.verl.config_folder import read_config_folder, read_key_file
from rlx.errors import UsageError
from rlx.local_files import is_folder

KEYS_FOLDER = Path(__file__).parent / "keys"
_UNFINISHED = re.compile(r"\d\.?(a|b|rc|dev)\d*")
TRAINERS = ("ppo_trainer", "ppo_megatron_trainer")
_FILE = Path(__file__).parent / "renames.json"


def shipped_versions() -> tuple[str, ...]:
    """Return the versions with a table, in order: of one number, a tree in development goes before the release."""
    names = (folder.name for folder in KEYS_FOLDER.iterdir() if folder.is_dir())
    return tuple(sorted(names, key=lambda name: (numbers(name), not _UNFINISHED.search(name), name)))


def find_table(version: str, trainer: str) -> KeyTable:
    """Return the table of `version`, else of the newest shipped version with the same major and minor number.

    Raises UsageError for any other version: its keys would be guesses.
    """
    same_minor = [known for known in shipped_versions() if release(known) == release(version)]
    if not same_minor:
        raise UsageError(
            f"backend.version: rlx has no key table for verl {version}",
            f"use one of {', '.join(shipped_versions())}, or name the configuration folder of your verl in "
            "backend.key_source",
        )
    return _shipped(version if version in same_minor else same_minor[-1], trainer)


def is_in_no_release(key: str) -> bool:
    """Tell whether no version of verl that rlx knows has a place for `key`, under this name or in a free section."""
    group = "/" in key or "@" in key or ("." not in key and key.endswith("_engine"))
    old = any(key == name or key.startswith(f"{name}.") for row in _rows()["names"] for name in row["names"])
    parts = key.split(".")
    sections = (".".join(parts[:depth]) for depth in range(1, len(parts)))
    is_free = any(section in _all_leaves() for section in sections)
    return not (group or old or is_free or any(key in table for table in _all_tables()))


def _all_tables() -> tuple[KeyTable, ...]:
    return tuple(_shipped(version, trainer) for version in shipped_versions() for trainer in TRAINERS)


@cache
def _all_leaves() -> frozenset[str]:
    return frozenset().union(*(table.defaults.keys() for table in _all_tables()))


def read_key_source(source: Path, trainer: str, config_name: str | None = None, version: str = "") -> KeyTable:
    """Read the table of a fork: its configuration folder, or one YAML file, flat or nested.

    `version` is what to call it, the path unless given. Raises UsageError if there is neither.
    """
    keys = read_config_folder(source, trainer, config_name) if is_folder(source) else read_key_file(source)
    return KeyTable.of(version or str(source), keys)


@cache
def _shipped(version: str, trainer: str) -> KeyTable:
    text = (KEYS_FOLDER / version / f"{trainer}.json").read_text(encoding="utf-8")
    return KeyTable.of(version, json.loads(text))


def release(version: str) -> tuple[int, ...]:
    """Major and minor number: within these verl keeps its keys."""
    return numbers(version)[:2]


def numbers(version: str) -> tuple[int, ...]:
    """Read up to three numbers: of `v0.7.1+aqn`, 0, 7 and 1."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


@dataclass(frozen=True, slots=True)
class Rename:
    """The name that this version reads, and whether it still reads the one that was written."""

    new: str
    ignored: bool


def find_rename(key: str, table: KeyTable, version: str) -> Rename | None:
    """Return the name of `key` in this version, if it is another one."""
    for row in _rows()["names"]:
        if (
            written := next((name for name in row["names"] if key == name or key.startswith(f"{name}.")), None)
        ) is None:
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


def _reached(version: str, start: str | None) -> bool:
    return start is not None and release(version) >= release(start)
