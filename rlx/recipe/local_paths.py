"""Make the paths of a recipe absolute that name files of this machine, relative to the file where they are written."""

from __future__ import annotations

import os
from pathlib import Path

from rlx.recipe.tree import Node
from rlx.recipe.tree import Path as KeyPath

LOCAL_PATHS: tuple[KeyPath, ...] = (("reward", "path"), ("eval", "post", "reward", "path"), ("backend", "key_source"))


def rooted(tree: Node, folder: Path) -> Node:
    """Return the tree with these paths made absolute, in the arms too."""
    arms = tree.children.get("arms")
    for key_path in LOCAL_PATHS:
        tree = _at(tree, key_path, folder)
        for arm in arms.children if arms else ():
            tree = _at(tree, ("arms", arm, *key_path), folder)
    return tree


def _at(node: Node, key_path: KeyPath, folder: Path) -> Node:
    """Return a copy of the tree in which the text at the path is absolute; the tree itself where there is none."""
    if not key_path:
        if not isinstance(node.value, str):
            return node
        # Not resolved: a link stays the link that the user named.
        return Node(str((folder / home_expanded(node.value)).absolute()), node.place)
    key = str(key_path[0])
    if key not in node.children:
        return node
    return Node({**node.children, key: _at(node.children[key], key_path[1:], folder)}, node.place)


def home_expanded(path: str) -> Path:
    # Path.expanduser raises RuntimeError for an unknown ~user; os.path leaves it, and the file is then not found.
    return Path(os.path.expanduser(path))  # noqa: PTH111
