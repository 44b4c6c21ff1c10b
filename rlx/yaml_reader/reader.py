"""Composes YAML text within limits: no tags, no aliases, no merge keys, no duplicate keys, no bombs.

Works on the parser's events and stops at the first one over a limit, so that a hostile file costs neither time nor
memory. PyYAML's own loaders keep the last of two equal keys, expand aliases, and follow nesting until the stack ends.
The library is imported when there is a text to read: `rlx status` on this machine needs none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlx.yaml_reader.scalars import Scalar
from rlx.yaml_reader.yaml_nodes import YamlError, YamlNode, YamlProblem

if TYPE_CHECKING:
    from yaml import YAMLError

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# Python holds so the bytes of an argument that are no UTF-8.
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def _in_words_of_libyaml(error: Any, _text: str) -> tuple[int, str]:
    """libyaml names the line at which it gave up, and where the value began that it could not end."""
    mark, begun = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    since = f" ({error.context} that begins in line {begun.line + 1})" if begun and mark else ""
    return (mark.line + 1 if mark else 1), f"{getattr(error, 'problem', None) or 'is no YAML text'}{since}"


@dataclass(frozen=True, slots=True)
class YamlForm:
    """The rules of one kind of file: what it may hold, and how its refusals are worded.

    `scalar` gives a plain word its value, or raises ValueError. `anchor` and `tag` may name theirs as `{name}`.
    `what` and `file` name it.
    `syntax` gives the line of a syntax error and what to do about it.
    """

    what: str
    file: str
    most_nodes: int
    most_levels: int
    scalar: Callable[[str], Scalar]
    anchor: str = "{name}: anchors and aliases are not read; repeat the value"
    tag: str = "tags are not read ({name}); remove it, and quote the value if it is text"
    merge: str = "merge keys (<<) are not read; repeat the entries"
    syntax: Callable[[YAMLError, str], tuple[int, str]] = _in_words_of_libyaml


def compose(text: str, form: YamlForm) -> tuple[YamlNode | None, list[YamlProblem]]:
    """Read the only document of a text: its root, None without content, and the problems that did not stop the reading.

    Raises YamlError for what stops it: no YAML, tags, aliases, merge keys, limits, several documents.
    """
    import yaml

    if _SURROGATE.search(text):
        raise YamlError([YamlProblem(1, "", "contains bytes that are no UTF-8")])
    composer = _Composer(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), form)
    try:
        return composer.document(), composer.problems
    except yaml.YAMLError as error:
        line, wording = form.syntax(error, text)
        if _is_depth(error):
            wording = _too_deep(form)
        raise YamlError([*composer.problems, YamlProblem(line, "", wording)]) from None


def _is_depth(error: Any) -> bool:
    """Recognise the limit of libyaml itself: from 0.2.6 on, 1000 levels, found before there is any event to count."""
    return "maximum nesting depth" in (getattr(error, "problem", None) or "")


def _too_deep(form: YamlForm) -> str:
    return f"is nested more than {form.most_levels} levels deep"


class _Composer:
    """Builds nodes from parser events by recursive descent. `problems` are those that do not stop the reading."""

    def __init__(self, events: Iterator[Any], form: YamlForm) -> None:
        self._events = events
        self._form = form
        self._nodes = 0
        self._path: list[str] = []
        self.problems: list[YamlProblem] = []

    def document(self) -> YamlNode | None:
        next(self._events)
        if _is(next(self._events), "StreamEnd"):
            return None
        node = self._node(next(self._events))
        next(self._events)
        if not _is(end := next(self._events), "StreamEnd"):
            raise self._refusal(end, f"a second document starts here; a {self._form.file} holds one")
        return node

    def _node(self, event: Any) -> YamlNode:
        self._check(event)
        if _is(event, "Scalar"):
            value = self._scalar(event)
            return YamlNode("scalar", value, event.start_mark, event.end_mark, is_plain=event.implicit[0])
        is_map = _is(event, "MappingStart")
        content, end = self._entries() if is_map else self._items()
        kind = "mapping" if is_map else "sequence"
        return YamlNode(kind, content, event.start_mark, end.end_mark, flow_style=bool(event.flow_style))

    def _check(self, event: Any) -> None:
        """Refuse what no file needs and every attack uses."""
        if event.anchor is not None:
            name = f"{'*' if _is(event, 'Alias') else '&'}{event.anchor[:40]}"
            raise self._refusal(event, self._form.anchor.format(name=name))
        if event.tag is not None:
            raise self._refusal(event, self._form.tag.format(name=event.tag[:40]))
        self._nodes += 1
        if self._nodes > self._form.most_nodes:
            raise self._refusal(event, f"has more than {self._form.most_nodes} values, so it is no {self._form.what}")
        if len(self._path) > self._form.most_levels:
            self._path.clear()
            raise self._refusal(event, _too_deep(self._form))

    def _scalar(self, event: Any) -> Scalar:
        word: str = event.value
        try:
            return self._form.scalar(word) if event.implicit[0] else text_value(word)
        except ValueError as error:
            self._problem(event, str(error))
        return word

    def _items(self) -> tuple[list[Any], Any]:
        items: list[YamlNode] = []
        while not _is(event := next(self._events), "SequenceEnd"):
            self._path.append(str(len(items)))
            items.append(self._node(event))
            self._path.pop()
        return items, event

    def _entries(self) -> tuple[list[Any], Any]:
        entries: dict[str, tuple[YamlNode, YamlNode]] = {}
        while not _is(event := next(self._events), "MappingEnd"):
            key = self._key(event)
            self._path.append(key.value)
            node = self._node(next(self._events))
            if key.value in entries:
                self._problem(event, f"appears twice, first in line {entries[key.value][0].line}; keep one")
            entries[key.value] = (key, node)
            self._path.pop()
        return list(entries.values()), event

    def _key(self, event: Any) -> YamlNode:
        self._check(event)
        if not _is(event, "Scalar"):
            raise self._refusal(event, "a list or map cannot be a key; quote values that start with [ or {")
        key: str = event.value
        if not key or _CONTROL.search(key):
            raise self._refusal(event, "a key is empty" if not key else "a key contains a control character")
        if key == "<<":
            raise self._refusal(event, self._form.merge)
        return YamlNode("scalar", key, event.start_mark, event.end_mark)

    def _problem(self, event: Any, text: str) -> None:
        self.problems.append(YamlProblem(event.start_mark.line + 1, ".".join(self._path), text))

    def _refusal(self, event: Any, text: str) -> YamlError:
        return YamlError([YamlProblem(event.start_mark.line + 1, ".".join(self._path), text)])


def _is(event: Any, kind: str) -> bool:
    return type(event).__name__ == f"{kind}Event"


def text_value(text: str) -> str:
    """The text itself. Raises ValueError for a control character: no value of a file needs one."""
    if control := _CONTROL.search(text):
        raise ValueError(f"contains the control character U+{ord(control[0]):04X}")
    return text
