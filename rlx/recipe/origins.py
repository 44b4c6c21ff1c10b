"""Name the place that each value of a resolved recipe comes from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from rlx.recipe.problems import SourceLocation
from rlx.recipe.tree import Node, find, leaves

DEFAULT = "default"


def origins_of(document: Mapping[str, Any], tree: Node, folder: Path) -> dict[str, str]:
    """Dotted leaf key -> where it was written, files relative to the folder of the recipe."""
    return {".".join(path): _origin(path, value, tree, folder) for path, value in leaves(document)}


def _origin(path: Sequence[str], value: Any, tree: Node, folder: Path) -> str:
    node = find(tree, path)
    # `epochs: null` was written too, but the value that counts is the default.
    if node is None or (node.value is None and value is not None):
        return DEFAULT
    return _short(node.place, folder)


def _short(place: SourceLocation, folder: Path) -> str:
    where = str(SourceLocation(_relative(place.file, folder) if place.line else place.file, place.line))
    return f"arm {place.arm}, {where}" if place.arm else where


@lru_cache(maxsize=64)
def _relative(file: str, folder: Path) -> str:
    """Standard input is no file: it has no folder to be relative to. Every value of a recipe asks the same."""
    return os.path.relpath(file, folder) if Path(file).parent != Path() else file
