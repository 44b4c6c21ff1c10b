"""Lay out text for a terminal: words wrap at its width, errors are red and warnings yellow."""

from __future__ import annotations

import os
import re
import textwrap
from typing import TextIO

_SEVERITY = re.compile(r"^(\s*(?:rlx: )?)(error|warning)(?=:| RLX\d)", re.MULTILINE)
_COLOURS = {"error": "\x1b[31m", "warning": "\x1b[33m"}
_PLAIN = "\x1b[0m"
_HANGING = 2
_USUAL = 80


def laid_out(text: str, stream: TextIO, *, wraps: bool = True) -> str:
    """Return the text as this stream shows it, unchanged where it is no terminal: a script wants each line whole."""
    if not stream.isatty():
        return text
    if wraps:
        width = _columns(stream)
        text = "\n".join(wrapped(line, width) for line in text.split("\n"))
    return _SEVERITY.sub(_coloured, text) if shows_colour(stream) else text


def wrapped(line: str, width: int) -> str:
    """Break a line between words; what goes on is indented by two more. A word that is too long stays whole."""
    if len(line) <= width:
        return line
    margin = " " * (len(line) - len(line.lstrip(" ")))
    lines = textwrap.wrap(
        line.strip(" "),
        width,
        initial_indent=margin,
        subsequent_indent=margin + " " * _HANGING,
        break_long_words=False,
        break_on_hyphens=False,
        expand_tabs=False,
        replace_whitespace=False,
    )
    return "\n".join(lines)


def _columns(stream: TextIO) -> int:
    if (given := os.environ.get("COLUMNS", "")).isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL
    except OSError:
        return _USUAL


def shows_colour(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal whose user wants colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _coloured(found: re.Match[str]) -> str:
    return f"{found[1]}{_COLOURS[found[2]]}{found[2]}{_PLAIN}"
