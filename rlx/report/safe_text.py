"""Make text of logs and hosts safe to show: replace characters that cannot be escaped, and mask secrets."""

from __future__ import annotations

import re
import unicodedata
from itertools import accumulate

from rlx.secret_text import mask

# No character of XML 1.0, or one that turns the direction of writing round for what follows it.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def shown(value: object, limit: int = 2000) -> str:
    """Return the value as text of at most `limit` characters that any HTML or SVG file may contain."""
    text = _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", mask(str(value)))
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def cut(text: str, cells: int) -> str:
    """Shorten the text to one line of at most so many cells of a terminal."""
    line = " ".join(shown(text).split())
    ends = list(accumulate(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line))
    if not ends or ends[-1] <= cells:
        return line
    return f"{line[: sum(end < cells for end in ends)]}…"
