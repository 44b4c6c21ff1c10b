"""Apply what follows the name in `${name…}` to values that are known."""

from __future__ import annotations

import fnmatch
import re

from rlx.shell_reader.shell_words import is_known

_MOST_PATTERN = 200
_MOST_VALUE = 2000


def trimmed(value: str, operator: str, pattern: str) -> str | None:
    """`#`, `##`, `%` and `%%` take away a beginning or an end; None where that cannot be known."""
    if not is_known(value) or not is_known(pattern) or len(pattern) > _MOST_PATTERN or len(value) > _MOST_VALUE:
        return None
    sizes = range(len(value) + 1)
    ordered = sizes if len(operator) == 1 else reversed(sizes)
    glob = re.compile(fnmatch.translate(pattern))
    for size in ordered:
        part = value[:size] if operator[0] == "#" else value[len(value) - size :]
        if glob.match(part):
            return value[size:] if operator[0] == "#" else value[: len(value) - size]
    return value


def replaced(value: str, operator: str, pattern: str, by: str) -> str | None:
    """`/` replaces the first match, `//` each; plain text only, None for patterns."""
    if not is_known(value) or not is_known(pattern) or not pattern or re.search(r"[*?\[\]\\]", pattern):
        return None
    return value.replace(pattern, by, -1 if operator == "//" else 1)


def cased(value: str, operator: str) -> str | None:
    """`^`, `^^`, `,` and `,,` change the case."""
    if not is_known(value):
        return None
    change = str.upper if operator[0] == "^" else str.lower
    return change(value) if len(operator) == 2 else change(value[:1]) + value[1:]


def cut(value: str, start: int, length: int | None) -> str | None:
    """`:start:length` takes a part."""
    if not is_known(value):
        return None
    begin = max(0, len(value) + start) if start < 0 else start
    if length is None:
        return value[begin:]
    return value[begin : len(value) + length] if length < 0 else value[begin : begin + length]
