"""Parse bash by tree-sitter's grammar, within half a second, and nothing that is not small text."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from rlx.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_CHARACTERS = 64 * 1024
# The grammar's memory grows with the square of these in one command, faster than its callback comes.
_TANGLING = re.compile(r"\||=\(|\[\[|\(\(")
_MOST_TANGLING = 1000
_MOST_SECONDS = 0.5
# Small, since the text of each node is read by such pieces, too.
_CHUNK = 1 << 10
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
Node = Any
"""A node of tree-sitter's tree: its package is imported where a script is read."""


def parse(text: str, name: str) -> Node:
    """Return the root of the tree. Raises UsageError for text that is too large, no text, or too tangled."""
    from tree_sitter import Language, Parser
    from tree_sitter_bash import language

    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{name}: is no UTF-8 text", "name a launch script, a YAML or a log") from None
    if len(text) > MOST_CHARACTERS:
        raise UsageError(f"{name}: is larger than {MOST_CHARACTERS // 1024} KB", "name the launch script alone")
    if _CONTROL.search(text):
        raise UsageError(f"{name}: is no text", "name a launch script, a YAML or a log")
    if sum(1 for _ in _TANGLING.finditer(text)) > _MOST_TANGLING:
        raise UsageError(f"{name}: has more than {_MOST_TANGLING} pipes and tests", "name the launch script alone")
    begun = time.monotonic()
    # A new parser each time: one that was stopped goes on where it stopped.
    parser = Parser(Language(language()))
    try:
        tree = parser.parse(
            lambda offset, _: data[offset : offset + _CHUNK],
            progress_callback=lambda *_: time.monotonic() - begun > _MOST_SECONDS,
        )
    except ValueError:
        raise UsageError(
            f"{name}: cannot be read as bash within half a second", "name the launch script alone"
        ) from None
    return tree.root_node


def text_of(node: Node) -> str:
    return bytes(node.text).decode("utf-8", "replace")


def line_of(node: Node) -> int:
    return int(node.start_point[0]) + 1


def named(node: Node) -> Iterator[Node]:
    """Return the children that are more than punctuation, without comments."""
    return (child for child in node.named_children if child.type != "comment")
