"""The chain of files that `extends` names, merged: the extended file first, the file itself on top."""

from __future__ import annotations

from pathlib import Path

from rlx.recipe.local_paths import home_expanded, rooted
from rlx.recipe.old_names import OldName, with_new_names
from rlx.recipe.problems import SCHEMA, Problem, refusal
from rlx.recipe.source import STDIN, Source, is_file, read_source
from rlx.recipe.tree import Node, merge, without
from rlx.recipe.yaml_tree import parse

_DEPTH_LIMIT = 10


def read_chain(path: Path | str | Source) -> tuple[Node, list[OldName], list[Problem]]:
    """The merged tree of a recipe file and everything that it extends, and old names and problems of all of them.

    Raises UsageError for a file that cannot be read, a cycle, or more than ten files.
    """
    chain: list[Node] = []
    old_names: list[OldName] = []
    problems: list[Problem] = []
    seen: list[Path] = []
    following: Path | str | Source | None = path
    while following is not None:
        source = following if isinstance(following, Source) else read_source(following)
        if not isinstance(following, Source) and str(following) != STDIN:
            seen.append(Path(following).resolve())
        tree, found = parse(source)
        named, old, twice = with_new_names(tree)
        problems += [*found, *twice]
        old_names += old
        chain.append(rooted(without(named, "extends"), source.folder))
        following = _extended(tree, source, seen)
    place = chain[0].place
    merged = chain.pop()
    while chain:
        merged = merge(merged, chain.pop())
    return Node(merged.value, place), old_names, problems


def _extended(tree: Node, source: Source, seen: list[Path]) -> Path | None:
    """The file that this one extends, relative to its folder."""
    named = tree.children.get("extends")
    if named is None or named.value is None:
        return None
    if not isinstance(named.value, str):
        raise refusal(named.place, "must be the path of one recipe file", "extends", SCHEMA)
    path = source.folder / home_expanded(named.value)
    if not is_file(path):
        raise refusal(named.place, f"there is no file {path}", "extends", SCHEMA)
    if path.resolve() in seen:
        raise refusal(named.place, f"{named.value} extends itself, directly or through others", "extends", SCHEMA)
    if len(seen) >= _DEPTH_LIMIT:
        raise refusal(named.place, f"more than {_DEPTH_LIMIT} files extend one another", "extends", SCHEMA)
    return path
