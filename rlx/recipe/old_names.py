"""Replace old names of keys in a recipe by the current ones, and keep their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlx import renamed_keys
from rlx.recipe.problems import Problem, SourceLocation
from rlx.recipe.tree import Node, find
from rlx.renamed_keys import RenamedKey


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
