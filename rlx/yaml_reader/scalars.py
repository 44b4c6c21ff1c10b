"""Read unquoted words by YAML 1.2's core rules, so that `5e-7` is a number and `no` is a word.

PyYAML follows YAML 1.1, where `5e-7` is text, `no` is false, `010` is 8 and `1:30` is 90. What the two read as
different *numbers* is refused; what YAML 1.1 would turn from a word into something else (`no`, `1:30`, a date) stays
the word.
Source: yaml.org/spec/1.2.2, chapter 10.3; yaml.org/type/int.html and float.html for 1.1.
"""

from __future__ import annotations

import re

Scalar = str | int | float | bool | None

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


def plain_value(word: str) -> Scalar:
    """The value of an unquoted word. Raises ValueError with the reason for a number that cannot be trusted."""
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
