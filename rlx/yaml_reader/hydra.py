"""Read what Hydra reads: configuration files, as plain dicts and lists, and words of its command line.

The words of a file are those of YAML 1.1, as Hydra takes them: `yes` is true, `1e-6` is a number, and a date stays a
word. On the command line, `key=value` becomes the key with its prefix, and the value that Hydra gives it.

Source: hydra-core 1.3, OverrideLexer.g4 and OverrideParser.g4. What the grammar does not take is kept as text, because
a script is read to be shown, not to be refused. Nesting is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from rlx.yaml_reader.reader import Scalar, YamlError, YamlForm, YamlNode, YamlProblem, compose

MOST_BYTES = 4 << 20
REMOVED = "(removed)"
"""The value of a key that is written with `~`."""
# A number for Hydra, a text for PyYAML, which requires a dot and a sign of the exponent.
_EXPONENT = re.compile(r"[-+]?\d+[eE][-+]?\d+")
_YAML_TAG = "tag:yaml.org,2002:"

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
_MOST_SECTIONS = 40


def read_hydra(text: str) -> Any:
    """Return the document of a text, None without one. Raises YamlError for anything that is not read, or wrong."""
    if len(text) > MOST_BYTES:
        raise YamlError([YamlProblem(1, "", f"is larger than {MOST_BYTES >> 20} MiB, so it is no configuration")])
    root, problems = compose(text, _FORM)
    if problems:
        raise YamlError(problems)
    return None if root is None else plain(root)


def plain(node: YamlNode) -> Any:
    """Return the value of a node without its lines."""
    if node.id == "mapping":
        return {key.value: plain(value) for key, value in node.value}
    return [plain(item) for item in node.value] if node.id == "sequence" else node.value


def read_scalar(word: str) -> Scalar:
    """Return the value of a plain word; the word itself where it is text."""
    if _EXPONENT.fullmatch(word):
        return float(word)
    loader, node_class = _loader()
    tag = loader.resolve(node_class, word, (True, False))
    if tag.removeprefix(_YAML_TAG) not in ("null", "bool", "int", "float"):
        return word
    value: Scalar = loader.construct_object(node_class(tag, word))
    return value


@cache
def _loader() -> tuple[Any, Any]:
    import yaml

    return yaml.SafeLoader(""), yaml.ScalarNode


_FORM = YamlForm(what="configuration", file="configuration file", most_nodes=20_000, most_levels=64, scalar=read_scalar)


class _Unreadable(Exception):
    """The text is none of the grammar's values."""


def read_word(word: str) -> tuple[str, object] | None:
    """Return the key with its prefix, and the value; None for a word that sets nothing."""
    match = _WORD.fullmatch(word)
    if match is not None:
        return match[1], read_value(match[2])
    return (word, None) if _REMOVAL.fullmatch(word) else None


def read_words(words: Iterable[str]) -> Iterator[tuple[str, object]]:
    """Apply `read_word` to each word, and keep what sets something, in the order of the words."""
    return (pair for word in words if (pair := read_word(word)) is not None)


def bare_key(key: str) -> str:
    """Return the key without the prefix that says whether it is set, added or removed."""
    return key[match.end() :] if (match := _PREFIX.match(key)) else key


def bare_leaves(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return bare dotted key -> value, however keys are written: `+a: {b: 1}` is `a.b`. A removed one is REMOVED."""
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


def leaves(tree: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield each key of a configuration, dotted; its list of defaults is one, without itself."""
    for key, value in tree.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and depth < _MOST_SECTIONS and path != "defaults":
            yield from leaves(value, f"{path}.", depth + 1)
        elif path == "defaults":
            yield path, [item for item in value if item != "_self_"] if isinstance(value, list) else value
        else:
            yield path, value


def read_value(text: str) -> object:
    """Return the value of the text; the text itself where the grammar has none. Empty text is an empty string."""
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
    """Read a quoted text.

    Backslashes count only in front of the quote: pairs of them become one, and the odd one makes it a character.
    """
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
    """Read bare text up to one of `stops`; an interpolation counts as a whole, whatever is in it."""
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
