"""Make untrusted text safe for a terminal: a log must not move the cursor, change the title or paste a command.

Passwords, keys and tokens are masked.
"""

from __future__ import annotations

import re

from rlx.secret_text import mask

# CSI, OSC and the two-character escapes of ECMA-48, in their 7-bit forms.
_CSI = r"\[[0-?]*[ -/]*[@-~]"
_OSC = r"\][^\x07\x1b]*(?:\x07|\x1b\\)?"
_STRING = r"[PX^_][^\x1b]*(?:\x1b\\)?"
_ESCAPES = re.compile(rf"\x1b(?:{_CSI}|{_OSC}|{_STRING}|[ -/]*[0-~])")
# Controls but for line ends, marks that change the direction of writing, and surrogates, which cannot be encoded.
_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_DIRECTIONS}\ud800-\udfff]")
_CONTROLS = re.compile(f"[\x00-\x08\x0a-\x1f\x7f-\x9f{_DIRECTIONS}]")


def printable_lines(line: bytes) -> list[str]:
    """Split a line of a log at its carriage returns into the parts that a terminal would show, without empty ones."""
    text = mask(_ESCAPES.sub("", line.decode("utf-8", errors="replace")))
    parts = [_CONTROLS.sub("\N{REPLACEMENT CHARACTER}", part) for part in text.split("\r")]
    return [part for part in parts if part] or [""]


def printable(text: str) -> str:
    """Return untrusted text without control characters and secrets. Line ends stay."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", mask(text))
