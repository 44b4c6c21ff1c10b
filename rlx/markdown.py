"""Write words of logs, hosts and recipes into Markdown: none of them is a link, an image, a tag or an end of code."""

from __future__ import annotations

import re

# What begins code, emphasis, a link, an image or a tag, and what would undo the escape.
_MARKS = re.compile(r"[\\`*\[\]]")


def prose(text: str) -> str:
    """The text as it reads, on one line or several; its tables and strikes stay as they are."""
    return _MARKS.sub(lambda found: f"\\{found[0]}", text).replace("&", "&amp;").replace("<", "&lt;")


def code(text: str) -> str:
    """A span of code that no run of backticks in the text ends."""
    ticks = "`" * (_longest_run(text) + 1)
    return f"{ticks} {text} {ticks}" if "`" in text else f"`{text}`"


def block(lines: list[str]) -> list[str]:
    """A block of code that no line of it ends."""
    fence = "`" * max(3, 1 + max(map(_longest_run, lines), default=0))
    return [f"{fence}text", *lines, fence]


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
