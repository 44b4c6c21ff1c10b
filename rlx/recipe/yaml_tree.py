"""YAML text to a tree with places, within limits: no tags, no aliases, no duplicate keys, no bombs.

Works on the parser's events and stops at the first one over a limit, so that a hostile file costs neither time nor
memory. PyYAML's own loaders read YAML 1.1 scalars, keep the last of two equal keys, and expand aliases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from rlx.recipe.problems import YAML, Place, Problem, RecipeError, refusal
from rlx.recipe.scalars import Scalar, plain_value
from rlx.recipe.source import Source
from rlx.recipe.tree import Node
from rlx.recipe.yaml_errors import explain

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEPTH_LIMIT = 32
_NODE_LIMIT = 10_000
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

PlaceOf = Callable[[int], Place]


def parse(source: Source) -> tuple[Node, list[Problem]]:
    """The tree of a file, and the problems that do not keep the rest from being read.

    Raises RecipeError for what does: text that is no YAML, tags, aliases, limits, several documents, no map on top.
    """
    node, problems = _compose(source.text, lambda line: Place(source.name, line))
    if node.value is None:
        raise refusal(node.place, "is empty; `rlx init` writes a recipe to start from")
    if not isinstance(node.value, dict):
        spaced = "; is there a space after each colon?" if ":" in str(node.value) else ""
        raise refusal(node.place, f"must be a map of `key: value` lines{spaced}")
    return node, problems


def parse_value(text: str, place: Place, key: str) -> Node:
    """One value as `--set` takes it: the same YAML, the same limits. Raises RecipeError that names the key."""
    try:
        node, problems = _compose(text, lambda _line: place)
    except RecipeError as error:
        problems = list(error.problems)
    if problems:
        raise RecipeError(Problem(place, problem.key or key, problem.text, problem.id) for problem in problems)
    return node


def _compose(text: str, place_of: PlaceOf) -> tuple[Node, list[Problem]]:
    composer = _Composer(text, place_of)
    try:
        return composer.document(), composer.problems
    except yaml.YAMLError as error:
        line, wording = explain(error, text)
        raise RecipeError([*composer.problems, Problem(place_of(line), "", wording, YAML)]) from None


class _Composer:
    """Builds nodes from parser events by recursive descent. `problems` are those that do not stop the reading."""

    def __init__(self, text: str, place_of: PlaceOf) -> None:
        self._events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self._place_of = place_of
        self._nodes = 0
        self._path: list[str] = []
        self.problems: list[Problem] = []

    def document(self) -> Node:
        """The only document of the text; a null node for a text without one."""
        next(self._events)
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return Node(None, self._place_of(1))
        node = self._node(next(self._events))
        next(self._events)
        if not isinstance(end := next(self._events), yaml.StreamEndEvent):
            raise refusal(self._place(end), "a second document starts here; a recipe file holds one")
        return node

    def _node(self, event: Any) -> Node:
        self._check(event)
        if isinstance(event, yaml.ScalarEvent):
            return Node(self._scalar(event), self._place(event))
        if isinstance(event, yaml.SequenceStartEvent):
            return Node(self._items(), self._place(event))
        return Node(self._entries(), self._place(event))

    def _check(self, event: Any) -> None:
        """Refuse what no recipe needs and every attack uses."""
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            name = f"{'*' if isinstance(event, yaml.AliasEvent) else '&'}{event.anchor[:40]}"
            raise self._refusal(event, f"{name}: anchors and aliases are not read; repeat the value, or use `extends`")
        if event.tag is not None:
            raise self._refusal(
                event, f"tags are not read ({event.tag[:40]}); remove it, and quote the value if it is text"
            )
        self._nodes += 1
        if self._nodes > _NODE_LIMIT:
            raise self._refusal(event, f"has more than {_NODE_LIMIT} values, so it is no recipe")
        if len(self._path) > _DEPTH_LIMIT:
            raise refusal(self._place(event), f"is nested more than {_DEPTH_LIMIT} levels deep")

    def _scalar(self, event: Any) -> Scalar:
        word: str = event.value
        if not event.implicit[0]:  # quoted, or a block of text
            if control := _CONTROL.search(word):
                self._problem(event, f"contains the control character U+{ord(control[0]):04X}")
            return word
        try:
            return plain_value(word)
        except ValueError as error:
            self._problem(event, str(error))
            return word

    def _items(self) -> list[Node]:
        items: list[Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            self._path.append(str(len(items)))
            items.append(self._node(event))
            self._path.pop()
        return items

    def _entries(self) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event)
            self._path.append(key)
            node = Node(self._node(next(self._events)).value, self._place(event))
            if key in entries:
                self._problem(event, f"appears twice, first in line {entries[key].place.line}; keep one")
            entries[key] = node
            self._path.pop()
        return entries

    def _key(self, event: Any) -> str:
        self._check(event)
        if not isinstance(event, yaml.ScalarEvent):
            raise self._refusal(event, "a list or map cannot be a key; quote values that start with [ or {")
        key: str = event.value
        if not key or _CONTROL.search(key):
            raise self._refusal(event, "a key is empty" if not key else "a key contains a control character")
        if key == "<<":
            raise self._refusal(event, "merge keys (<<) are not read; use `extends`")
        return key

    def _place(self, event: Any) -> Place:
        return self._place_of(event.start_mark.line + 1)

    def _dotted(self) -> str:
        return ".".join(self._path)

    def _problem(self, event: Any, text: str) -> None:
        self.problems.append(Problem(self._place(event), self._dotted(), text, YAML))

    def _refusal(self, event: Any, text: str) -> RecipeError:
        return refusal(self._place(event), text, self._dotted())
