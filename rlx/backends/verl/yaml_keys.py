"""One YAML file of keys. It may come from another machine, so neither its types nor its size are believed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from rlx.errors import UsageError

_MOST_KEYS = 100_000
HINT = "a verl configuration folder holds _generated_ppo_trainer.yaml"


def read_key_file(path: Path) -> dict[str, Any]:
    """Key → default of one YAML file, flat or nested."""
    return flat(read_yaml(path), path)


def read_yaml(path: Path) -> dict[str, Any]:
    """A mapping. Raises UsageError for anything else, also for values that only look like YAML's."""
    import yaml

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise UsageError(f"{path}: {problem.strerror}", HINT) from None
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        raise UsageError(f"{path} is not YAML: {problem}") from None
    if not isinstance(document, dict):
        raise UsageError(f"{path} holds no mapping of configuration keys")
    return document


def flat(tree: Mapping[str, Any], where: Path) -> dict[str, Any]:
    """Leaves by dotted key. YAML's aliases make few lines into very many keys, or into endless ones."""
    try:
        leaves = dict(islice(_leaves(tree, ""), _MOST_KEYS + 1))
    except RecursionError:
        raise UsageError(f"{where}: its sections contain themselves") from None
    if len(leaves) > _MOST_KEYS:
        raise UsageError(f"{where}: more than {_MOST_KEYS:,} keys")
    return leaves


def _leaves(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
