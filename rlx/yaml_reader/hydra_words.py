"""Read words of Hydra's command line, and keys that are written as there.

`key=value` becomes the key with its prefix, and the value that Hydra gives it.

Source: hydra-core 1.3, OverrideLexer.g4 and OverrideParser.g4. What the grammar does not take is kept as text, because
a script is read to be shown, not to be refused. Nesting is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

REMOVED = "(removed)"
"""The value of a key that is written with `~`."""
_PREFIX = re.compile(r"\+{1,2}|~")
_WORD = re.compile(r"((?:\+{1,2}|~)?[^\s=+~'\"]+)=(.*)", re.DOTALL)
_REMOVAL = re.compile(r"~[^\s=+~'\"]+")
_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]*(?:_[0-9]+)*)")
_FLOAT = re.compile(r"[+-]?(?:(?:\d+(?:_\d+)*\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|[iI][nN][fF]|[nN][aA][nN])")
_CONSTANTS = {"null": None, "true": True, "false": False}
_BLANKS = " \t"
_ESCAPED = re.compile(r"\\([\\()\[\]{}:=,\s])")
_MOST_DEPTH = 30
_MOST_DIGITS = 400


class _Unreadable(Exception):
    """The text is none of the grammar's values."""


def read_word(word: str) -> tuple[str, object] | None:
    """The key with its prefix, and the value; None for a word that sets nothing."""
    match = _WORD.fullmatch(word)
    if match is not None:
        return match[1], read_value(match[2])
    return (word, None) if _REMOVAL.fullmatch(word) else None


def read_words(words: Iterable[str]) -> Iterator[tuple[str, object]]:
    """`read_word` of each word that sets something, in their order."""
    return (pair for word in words if (pair := read_word(word)) is not None)


def bare_key(key: str) -> str:
    """The key without the prefix that says whether it is set, added or removed."""
    return key[match.end() :] if (match := _PREFIX.match(key)) else key


def bare_leaves(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Bare dotted key -> value, however the keys are written: `+a: {b: 1}` is `a.b`. A removed key is REMOVED."""
    found: dict[str, Any] = {}
    for key, value in overrides.items():
        bare = bare_key(str(key))
        found.update([(bare, REMOVED)] if str(key).startswith("~") else _leaves(bare, value))
    return found


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping) or not value:
        yield key, value
        return
    for name, inner in value.items():
        yield from _leaves(f"{key}.{name}", inner)


def read_value(text: str) -> object:
    """The value of the text; the text itself where the grammar has none for it. An empty text is an empty string."""
    try:
        value, end = _value(text, _blanks(text, 0), 0, "")
    except _Unreadable:
        return text
    return value if _blanks(text, end) == len(text) else text


def _value(text: str, at: int, depth: int, stops: str) -> tuple[object, int]:
    if depth > _MOST_DEPTH:
        raise _Unreadable
    if text[at : at + 1] in ("'", '"') and at < len(text):
        return _quoted(text, at)
    if text[at : at + 1] == "[":
        return _list(text, at + 1, depth)
    if text[at : at + 1] == "{":
        return _map(text, at + 1, depth)
    return _primitive(text, at, stops)


def _quoted(text: str, at: int) -> tuple[str, int]:
    """Backslashes count only in front of the quote: pairs of them become one, and the odd one makes it a character."""
    quote, found, i = text[at], "", at + 1
    while i < len(text):
        slashes = 0
        while text[i : i + 1] == "\\":
            slashes, i = slashes + 1, i + 1
        if i < len(text) and text[i] == quote:
            found += "\\" * (slashes // 2)
            if slashes % 2 == 0:
                return found, i + 1
            found += quote
        else:
            found += "\\" * slashes + text[i : i + 1]
        i += 1
    raise _Unreadable


def _list(text: str, at: int, depth: int) -> tuple[list[object], int]:
    found: list[object] = []
    at = _blanks(text, at)
    if text[at : at + 1] == "]":
        return found, at + 1
    while True:
        value, at = _value(text, _blanks(text, at), depth + 1, ",]")
        found.append(value)
        at = _blanks(text, at)
        if text[at : at + 1] == "]":
            return found, at + 1
        at = _after(text, at, ",")


def _map(text: str, at: int, depth: int) -> tuple[dict[str, object], int]:
    found: dict[str, object] = {}
    at = _blanks(text, at)
    if text[at : at + 1] == "}":
        return found, at + 1
    while True:
        key, at = _value(text, _blanks(text, at), depth + 1, ":")
        value, at = _value(text, _blanks(text, _after(text, _blanks(text, at), ":")), depth + 1, ",}")
        found[str(key)] = value
        at = _blanks(text, at)
        if text[at : at + 1] == "}":
            return found, at + 1
        at = _after(text, at, ",")


def _primitive(text: str, at: int, stops: str) -> tuple[object, int]:
    """Bare text up to one of `stops`; an interpolation counts as a whole, whatever stands in it."""
    end = at
    while end < len(text) and text[end] not in stops:
        if text.startswith("${", end):
            end = _interpolated(text, end)
        elif text[end] == "\\":
            end += 2
        elif text[end] in "[]{}'\"" and stops:
            raise _Unreadable
        else:
            end += 1
    bare = text[at:end].strip(_BLANKS)
    if not bare and stops:
        raise _Unreadable
    return _scalar(bare), min(end, len(text))


def _interpolated(text: str, at: int) -> int:
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0 and text[i] == "}":
            return i + 1
    raise _Unreadable


def _scalar(bare: str) -> object:
    if bare.lower() in _CONSTANTS:
        return _CONSTANTS[bare.lower()]
    if len(bare) > _MOST_DIGITS:
        return bare
    if _INTEGER.fullmatch(bare):
        return int(bare)
    if _FLOAT.fullmatch(bare):
        return float(bare)
    return _ESCAPED.sub(r"\1", bare) if "${" not in bare else bare


def _blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _after(text: str, at: int, mark: str) -> int:
    if text[at : at + 1] != mark:
        raise _Unreadable
    return at + 1
