"""Parse bash by tree-sitter's grammar, within a second, and nothing that is not small text."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from rlx.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_CHARACTERS = 256 * 1024
_MOST_SECONDS = 1.0
_CHUNK = 1 << 16
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
Node = Any
"""A node of tree-sitter's tree: its package is imported where a script is read."""


def parse(text: str, name: str) -> Node:
    """The root of the tree. Raises UsageError for text that is too large, no text, or too tangled."""
    from tree_sitter import Language, Parser
    from tree_sitter_bash import language

    if len(text) > MOST_CHARACTERS:
        raise UsageError(f"{name}: is larger than {MOST_CHARACTERS // 1024} KB", "name the launch script alone")
    if _CONTROL.search(text):
        raise UsageError(f"{name}: is no text", "name a launch script, a YAML or a log")
    data, begun = text.encode(), time.monotonic()
    # A new parser each time: one that was stopped goes on where it stopped.
    parser = Parser(Language(language()))
    try:
        tree = parser.parse(
            lambda offset, _: data[offset : offset + _CHUNK],
            progress_callback=lambda *_: time.monotonic() - begun > _MOST_SECONDS,
        )
    except ValueError:
        raise UsageError(f"{name}: cannot be read as bash within a second", "name the launch script alone") from None
    return tree.root_node


def text_of(node: Node) -> str:
    return bytes(node.text).decode("utf-8", "replace")


def line_of(node: Node) -> int:
    return int(node.start_point[0]) + 1


def named(node: Node) -> Iterator[Node]:
    """The children that are more than punctuation, without comments."""
    return (child for child in node.named_children if child.type != "comment")
