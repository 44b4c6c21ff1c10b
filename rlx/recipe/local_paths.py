"""The paths of a recipe that name files on this machine: they are relative to the file in which they were written."""

from __future__ import annotations

import os
from pathlib import Path

from rlx.recipe.tree import Node
from rlx.recipe.tree import Path as KeyPath

LOCAL_PATHS: tuple[KeyPath, ...] = (("reward", "path"), ("eval", "post", "reward", "path"), ("backend", "key_source"))


def rooted(tree: Node, folder: Path) -> Node:
    """The tree with these paths made absolute, in the arms too."""
    for key_path in LOCAL_PATHS:
        tree = _at(tree, key_path, folder)
        for arm in _arms(tree):
            tree = _at(tree, ("arms", arm, *key_path), folder)
    return tree


def _arms(tree: Node) -> list[str]:
    arms = tree.children.get("arms")
    return list(arms.children) if arms else []


def _at(node: Node, key_path: KeyPath, folder: Path) -> Node:
    """A copy of the tree in which the text at the path is absolute; the tree itself where there is none."""
    if not key_path:
        return Node(_absolute(node.value, folder), node.place) if isinstance(node.value, str) else node
    key = str(key_path[0])
    if key not in node.children:
        return node
    return Node({**node.children, key: _at(node.children[key], key_path[1:], folder)}, node.place)


def home_expanded(path: str) -> Path:
    # Path.expanduser raises RuntimeError for an unknown ~user; os.path leaves it, and the file is then not found.
    return Path(os.path.expanduser(path))  # noqa: PTH111


def _absolute(path: str, folder: Path) -> str:
    # Not resolved: a link stays the link that the user named.
    return str((folder / home_expanded(path)).absolute())
