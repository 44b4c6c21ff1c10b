"""Read YAML text within limits: no tags, no aliases, no merge keys, no duplicate keys, no bombs.

The composer works on the parser's events and stops at the first one over a limit, so that a hostile file costs neither
time nor memory. PyYAML's own loaders keep the last of two equal keys, expand aliases, and follow nesting until the
stack ends.
The library is imported when there is a text to read: `rlx status` on this machine needs none.

Unquoted words follow YAML 1.2's core rules, so that `5e-7` is a number and `no` is a word. PyYAML follows YAML 1.1,
where `5e-7` is text, `no` is false, `010` is 8 and `1:30` is 90. What the two read as different *numbers* is refused;
what YAML 1.1 would turn from a word into something else (`no`, `1:30`, a date) stays the word.
Source: yaml.org/spec/1.2.2, chapter 10.3; yaml.org/type/int.html and float.html for 1.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yaml import YAMLError

Scalar = str | int | float | bool | None

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# Python represents the bytes of an argument that are no UTF-8 like this.
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_REAL = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_AMBIGUOUS = re.compile(r"[-+]?0[0-9]+|[-+]?0[xob][0-9a-fA-F_]+|[-+]?[0-9][0-9_]*_[0-9_.]*(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORD_LIMIT = 100
_DIGIT_LIMIT = 18  # fits in 64 bits, and keeps int() from meeting thousands of digits


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A value and the marks (line and column from 0, index) at which it begins and ends.

    `value` is a scalar, the nodes of a list, or the pairs of nodes of a map, as `id` says: scalar, sequence, mapping.
    """

    id: str
    value: Any
    start_mark: Any
    end_mark: Any
    is_plain: bool = False
    flow_style: bool = False

    @property
    def line(self) -> int:
        """Return the line at which it begins, from 1."""
        return int(self.start_mark.line) + 1


@dataclass(frozen=True, slots=True)
class YamlProblem:
    """One thing that is wrong, in a line counted from 1. `key` is dotted, empty where no key is concerned."""

    line: int
    key: str
    text: str

    def __str__(self) -> str:
        """Return `line: key: text`, to follow the name of a file."""
        return ": ".join(part for part in (str(self.line), self.key, self.text) if part)


class YamlError(Exception):
    """A text that cannot be read: `problems` are those found on the way, of which the last one stopped the reading."""

    def __init__(self, problems: Iterable[YamlProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems[-1].text)


def _in_words_of_libyaml(error: Any, _text: str) -> tuple[int, str]:
    """Return what libyaml says: the line at which it gave up, and where the value began that it could not end."""
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
    """Build nodes from parser events by recursive descent. `problems` are those that do not stop the reading."""

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
    """Return the text itself. Raises ValueError for a control character: no value of a file needs one."""
    if control := _CONTROL.search(text):
        raise ValueError(f"contains the control character U+{ord(control[0]):04X}")
    return text


def plain_value(word: str) -> Scalar:
    """Return the value of an unquoted word. Raises ValueError with the reason for a number that cannot be trusted."""
    if word in _WORDS:
        return _WORDS[word]
    if len(word) > _WORD_LIMIT:
        # No number is that long, and the patterns below need quadratic time for what nearly is one.
        if not word.strip("0123456789+-._eE"):
            raise ValueError(f"{_short(word)} is too long for a number; quote it if it is text")
        return word
    if _AMBIGUOUS.fullmatch(word):
        raise ValueError(
            f"{_short(word)} is not the same number for every YAML reader; write plain digits, or quote the text"
        )
    if _NOT_FINITE.fullmatch(word):
        raise ValueError(f"{word} is no finite number; write the number, or quote the text")
    if _WHOLE.fullmatch(word):
        return _whole(word)
    return _real(word) if _REAL.fullmatch(word) else word


def _whole(word: str) -> int:
    if len(word.lstrip("+-")) > _DIGIT_LIMIT:
        raise ValueError(f"{_short(word)} has more than {_DIGIT_LIMIT} digits; quote it if it is text")
    return int(word)


def _real(word: str) -> float:
    value = float(word)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{_short(word)} is too large for a number; quote it if it is text")
    return value


def _short(word: str) -> str:
    return word if len(word) <= 40 else f"{word[:37]}…"
