"""Read values from the command line (`--set train.lr=1e-6`) as one more partial recipe on top of the file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rlx.errors import UsageError
from rlx.recipe.local_paths import rooted
from rlx.recipe.problems import Problem, SourceLocation
from rlx.recipe.tree import Node, OldName, with_new_names
from rlx.recipe.yaml_tree import parse_value

OPTION = "--set"
# Below these, the rest of the dotted key is one key: `overrides.trainer.project_name` sets `trainer.project_name`.
_DOTTED_BELOW = ("overrides", "env")


def read_sets(sets: Sequence[str], arms: Iterable[str]) -> tuple[Node, list[OldName], list[Problem]]:
    """Return the partial recipe that the options spell out; a later one wins. `arms` are known arm names, dots and all.

    Also returned are the old names of keys in it, and its problems. Raises UsageError for an option without `=`,
    without a key or value, or with a value that is no YAML.
    """
    place = SourceLocation(OPTION)
    tree = Node({}, place)
    names = sorted(arms, key=len, reverse=True)
    for option in sets:
        key, equals, text = option.partition("=")
        if not equals or not all(key.split(".")):
            raise UsageError(f"{OPTION} {option}: is not KEY=VALUE", "write for example --set train.lr=1e-6")
        path = split_key(key, names)
        if path[0] == "extends":
            raise UsageError(f"{OPTION} {option}: extends belongs into the file", "extend the other recipe there")
        tree = _assigned(tree, path, _value(key, path, text, place))
    named, old_names, problems = with_new_names(tree)
    return rooted(named, Path.cwd()), old_names, problems


def split_key(key: str, arms: Sequence[str]) -> tuple[str, ...]:
    """Return the path that a dotted key means; some names have dots of their own."""
    for arm in arms:
        if key.startswith(f"arms.{arm}."):
            return ("arms", arm, *split_key(key.removeprefix(f"arms.{arm}."), ()))
    first, _, rest = key.partition(".")
    return (first, rest) if first in _DOTTED_BELOW and rest else tuple(key.split("."))


def _value(key: str, path: tuple[str, ...], text: str, place: SourceLocation) -> Node:
    if path[-2:-1] == ("env",):
        # Environment values are text anyway, and quoting through a shell is a trap: env.X=1 is the text 1.
        return Node(text, place)
    if not text.strip():
        raise UsageError(f"{OPTION} {key}=: has no value", f"write {key}=null to return to the default")
    return parse_value(text, place, key)


def _assigned(tree: Node, path: Sequence[str], value: Node) -> Node:
    """Return the tree with this value at this path. Not a merge: a null must stay, to remove what the file says."""
    if not path:
        return value
    below = tree.children.get(path[0], Node({}, value.place))
    return Node({**tree.children, path[0]: _assigned(below, path[1:], value)}, tree.place)
