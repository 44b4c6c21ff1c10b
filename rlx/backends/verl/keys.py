"""Which configuration keys a version of verl knows, and which one a misspelt key probably means.

A table comes from the version's own configuration tree: shipped ones lie in `keys/<version>/`, and a fork's tree is
read where the recipe says (`backend.key_source`). A key outside the table is refused by Hydra itself, minutes later.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rlx.errors import UsageError

KEYS_FOLDER = Path(__file__).parent / "keys"
TRAINERS = ("ppo_trainer", "ppo_megatron_trainer")

# Hydra's own settings; part of every Hydra program, of no table.
_HYDRA = re.compile(r"hydra[./]")


@dataclass(frozen=True)
class KeyTable:
    """The keys of one trainer of one version, with their defaults. `version` may differ from the recipe's."""

    version: str
    defaults: Mapping[str, Any]
    nodes: frozenset[str]

    @classmethod
    def of(cls, version: str, defaults: Mapping[str, Any]) -> KeyTable:
        return cls(version, defaults, frozenset(_inner_nodes(defaults)))

    def __contains__(self, key: str) -> bool:
        """Whether verl accepts `key=…`: a leaf, a whole section, or a setting of Hydra."""
        return key in self.defaults or key in self.nodes or _HYDRA.match(key) is not None

    def first(self, *keys: str) -> str:
        """The first of several names that this version knows; the first of all if it knows none."""
        return next((key for key in keys if key in self), keys[0])

    def nearest(self, key: str, count: int = 3) -> tuple[str, ...]:
        """Known keys that resemble `key`: the same last word elsewhere first, then similar spelling."""
        last = key.rpartition(".")[2]
        homonyms = [known for known in self.defaults if known.rpartition(".")[2] == last]
        similar = difflib.get_close_matches(key, self.defaults, n=count, cutoff=0.75)
        ranked = sorted(homonyms, key=lambda known: -difflib.SequenceMatcher(None, key, known).ratio())
        return tuple(dict.fromkeys(ranked[:count] + similar))[:count]


def shipped_versions() -> tuple[str, ...]:
    return tuple(sorted((folder.name for folder in KEYS_FOLDER.iterdir() if folder.is_dir()), key=_numbers))


def find_table(version: str, trainer: str) -> KeyTable:
    """The table of `version`, else of the newest shipped version with the same major and minor number.

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


def read_key_source(source: Path, trainer: str) -> KeyTable:
    """The table of a fork: its configuration folder, or one YAML file, flat or nested.

    Raises UsageError if there is neither.
    """
    if source.is_dir():
        return KeyTable.of(str(source), read_config_folder(source, trainer))
    return KeyTable.of(str(source), dict(_flat(_yaml(source))))


def read_config_folder(folder: Path, trainer: str) -> dict[str, Any]:
    """Key → default from the composed configuration that verl generates and keeps beside its sources."""
    places = (folder, folder / "verl/trainer/config", folder / "trainer/config")
    found = next((place for place in places if (place / f"_generated_{trainer}.yaml").is_file()), folder)
    return dict(_flat(_yaml(found / f"_generated_{trainer}.yaml"))) | dict(_groups(found, trainer))


@cache
def _shipped(version: str, trainer: str) -> KeyTable:
    text = (KEYS_FOLDER / version / f"{trainer}.json").read_text(encoding="utf-8")
    return KeyTable.of(version, json.loads(text))


def release(version: str) -> tuple[int, ...]:
    """Major and minor number: within these verl keeps its keys."""
    return _numbers(version)[:2]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _inner_nodes(keys: Mapping[str, Any]) -> Iterator[str]:
    for key in keys:
        parts = key.split(".")
        yield from (".".join(parts[:depth]) for depth in range(1, len(parts)))


def _groups(folder: Path, name: str) -> Iterator[tuple[str, Any]]:
    """Configuration groups, which are chosen like keys: `model_engine=megatron`."""
    path = folder / f"{name}.yaml"
    for choice in _yaml(path).get("defaults", ()) if path.is_file() else ():
        if isinstance(choice, dict):
            yield from ((group.removeprefix("override "), option) for group, option in choice.items())
        elif choice != "_self_":
            yield from _groups(folder, choice)


def _flat(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise UsageError(
            f"{path}: {problem.strerror}", "a verl configuration folder holds _generated_ppo_trainer.yaml"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise UsageError(f"{path} is not YAML: {problem}") from None
    if not isinstance(document, dict):
        raise UsageError(f"{path} holds no mapping of configuration keys")
    return document
