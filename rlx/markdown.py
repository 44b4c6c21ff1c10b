"""Escape text of logs, hosts and recipes for Markdown, so that it makes no link, image or tag, ends no code."""

from __future__ import annotations

import re

# Characters that begin code, emphasis, a link, an image or a tag, and the escape character itself.
_MARKS = re.compile(r"[\\`*\[\]]")


def prose(text: str) -> str:
    """Escape a text of one line or more; marks of tables and excluded values (`|`, `~`) stay."""
    return _MARKS.sub(lambda found: f"\\{found[0]}", text).replace("&", "&amp;").replace("<", "&lt;")


def code(text: str) -> str:
    """Return a span of code with more backticks around it than any in the text."""
    ticks = "`" * (_longest_run(text) + 1)
    return f"{ticks} {text} {ticks}" if "`" in text else f"`{text}`"


def block(lines: list[str]) -> list[str]:
    """Return the lines of a block of code whose fence is longer than any run of backticks in it."""
    fence = "`" * max(3, 1 + max(map(_longest_run, lines), default=0))
    return [f"{fence}text", *lines, fence]


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
