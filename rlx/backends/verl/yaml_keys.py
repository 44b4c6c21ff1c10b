"""One YAML file of keys. It may come from another machine, so neither its types nor its size are believed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from rlx.errors import UsageError
from rlx.local_files import read_text
from rlx.yaml_reader.hydra import MOST_BYTES, read_hydra
from rlx.yaml_reader.reader import YamlError

_MOST_KEYS = 100_000
HINT = "a verl configuration folder holds _generated_ppo_trainer.yaml"


def read_key_file(path: Path) -> dict[str, Any]:
    """Key → default of one YAML file, flat or nested."""
    return dict(_keys_in(_text_of(path), path))


@lru_cache(maxsize=16)
def _keys_in(text: str, path: Path) -> Mapping[str, Any]:
    """What a text says stays: one plan asks for the keys of its file several times, and reading them is slow."""
    return flat(_mapping_in(text, path), path)


def read_yaml(path: Path) -> dict[str, Any]:
    """A mapping. Raises UsageError for anything else, also for values that only look like YAML's."""
    return _mapping_in(_text_of(path), path)


def _text_of(path: Path) -> str:
    try:
        return read_text(path, MOST_BYTES)
    except OSError as problem:
        raise UsageError(f"{path}: {problem.strerror}", HINT) from None


def _mapping_in(text: str, path: Path) -> dict[str, Any]:
    try:
        document = read_hydra(text)
    except YamlError as error:
        raise UsageError(f"{path}:{error.problems[0]}", HINT) from None
    if not isinstance(document, dict):
        raise UsageError(f"{path} holds no mapping of configuration keys")
    return document


def flat(tree: Mapping[str, Any], where: Path) -> dict[str, Any]:
    """Leaves by dotted key. Raises UsageError for more than a back-end can have: files may name each other."""
    leaves = dict(_leaves(tree, ""))
    if len(leaves) > _MOST_KEYS:
        raise UsageError(f"{where}: more than {_MOST_KEYS:,} keys")
    return leaves


def _leaves(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
