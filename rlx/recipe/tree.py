"""Hold recipe files as trees with the place of every node, merge them, and replace old names of keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlx import renamed_keys
from rlx.recipe.problems import Problem, SourceLocation
from rlx.renamed_keys import RenamedKey
from rlx.yaml_reader.reader import Scalar

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place: of its key where it has one, else its own."""

    value: Scalar | list[Node] | dict[str, Node]
    place: SourceLocation

    @property
    def children(self) -> Mapping[str, Node]:
        """The entries of a map; none for anything else."""
        return self.value if isinstance(self.value, dict) else {}


def merge(base: Node, over: Node) -> Node:
    """Merge `over` onto `base`: maps merge deeply, anything else replaces, null removes what was inherited.

    A null that has nothing to remove stays, so that a later merge can act on it. A merged map keeps its first place.
    """
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    merged = dict(base.value)
    for key, node in over.value.items():
        if key not in merged:
            merged[key] = node
        elif node.value is None:
            del merged[key]
        else:
            merged[key] = merge(merged[key], node)
    return Node(merged, base.place)


def in_arm(node: Node, arm: str) -> Node:
    """Return the same tree, every place marked as written inside that arm."""
    value = node.value
    if isinstance(value, dict):
        value = {key: in_arm(child, arm) for key, child in value.items()}
    elif isinstance(value, list):
        value = [in_arm(child, arm) for child in value]
    return Node(value, replace(node.place, arm=arm))


def without(node: Node, *keys: str) -> Node:
    return Node({key: child for key, child in node.children.items() if key not in keys}, node.place)


def settled(node: Node, verbatim: Sequence[Path]) -> Node:
    """Return the tree without nulls, so that defaults apply; below the `verbatim` paths null is a value."""
    if not isinstance(node.value, dict) or () in verbatim:
        return node
    below = {key: [path[1:] for path in verbatim if path and path[0] == key] for key in node.value}
    kept = {key: settled(child, below[key]) for key, child in node.value.items() if child.value is not None}
    return Node(kept, node.place)


def plain(node: Node) -> Any:
    """Return the tree as plain dicts, lists and scalars."""
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in node.value.items()}
    return [plain(child) for child in node.value] if isinstance(node.value, list) else node.value


def find(root: Node, path: Sequence[str | int]) -> Node | None:
    """Return the node at a path through maps, None where nothing was written."""
    node: Node | None = root
    for key in path:
        node = node.children.get(str(key)) if node else None
    return node


def nearest(root: Node, path: Sequence[str | int]) -> Node:
    """Return the node at the path, or the deepest one above it that was written down."""
    node = root
    for step in path:
        below: Node | None = None
        if isinstance(node.value, dict):
            below = node.value.get(str(step))
        elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
            below = node.value[step]
        if below is None:
            return node
        node = below
    return node


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every path through maps that ends in something that is no map, or an empty one. A list is one leaf."""
    if isinstance(value, Mapping) and value:
        for key, child in value.items():
            yield from leaves(child, (*path, key))
    else:
        yield path, value


def changed(before: Any, after: Any) -> tuple[str, ...]:
    """Return the dotted leaves at which two documents differ. Where a map replaced a scalar, the leaves of the map."""
    old, new = dict(leaves(before)), dict(leaves(after))
    differing = [path for path in {**old, **new} if _exact(old.get(path, _ABSENT)) != _exact(new.get(path, _ABSENT))]
    inner = {path[:depth] for path in differing for depth in range(len(path))}
    return tuple(sorted(".".join(path) for path in differing if path not in inner))


_ABSENT = object()


def _exact(value: Any) -> str:
    # For Python, 1 equals True and 1.0; in a recipe they are three things.
    return "absent" if value is _ABSENT else json.dumps(value, sort_keys=True)


@dataclass(frozen=True, slots=True)
class OldName:
    """An old name and its place. `arm`: the arm that it is in; empty outside of arms."""

    place: SourceLocation
    arm: str
    key: RenamedKey


def with_new_names(tree: Node) -> tuple[Node, list[OldName], list[Problem]]:
    """Return the tree of one file, or of the options, with current names, its old names, and keys given twice."""
    used: list[OldName] = []
    problems: list[Problem] = []
    for row in renamed_keys.RENAMED:
        tree = _renamed(tree, "", row, used, problems)
        arms = tree.children.get("arms")
        for arm, partial in arms.children.items() if arms else ():
            tree = _with(tree, ("arms", arm), _renamed(partial, arm, row, used, problems))
    return tree, used, problems


def _renamed(recipe: Node, arm: str, row: RenamedKey, used: list[OldName], problems: list[Problem]) -> Node:
    """Return the recipe, or the partial recipe of an arm, with one key renamed."""
    found, other = find(recipe, row.old.split(".")), find(recipe, row.new.split("."))
    if found is None:
        return recipe
    if other is not None:
        text = f"is the old name of {row.new}, which stands at {other.place}: remove one of the two"
        problems.append(Problem(found.place, f"arms.{arm}.{row.old}" if arm else row.old, text))
    used.append(OldName(found.place, arm, row))
    return _with(_without(recipe, row.old.split(".")), row.new.split("."), found)


def _without(node: Node, path: Sequence[str]) -> Node:
    """Return the tree without the node at the path, and without sections that this leaves empty."""
    key, *below = path
    children = dict(node.children)
    kept = _without(children[key], below) if below else None
    if kept is not None and kept.children:
        children[key] = kept
    else:
        del children[key]
    return Node(children, node.place)


def _with(node: Node, path: Sequence[str], value: Node) -> Node:
    if not path:
        return value
    below = node.children.get(path[0], Node({}, value.place))
    return Node({**node.children, path[0]: _with(below, path[1:], value)}, node.place)
