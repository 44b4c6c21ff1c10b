"""Parse bash by tree-sitter's grammar in half a second of processor time, and blank what a script only prints.

That is the words of `echo` and similar commands, and their here-documents.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

from rlx.errors import UsageError

MOST_CHARACTERS = 64 * 1024
# The grammar's memory grows with the square of these in one command, faster than its callback comes.
_TANGLING = re.compile(r"\||=\(|\[\[|\(\(")
_MOST_TANGLING = 1000
# Of processor time, since a busy machine makes no script unreadable.
_MOST_SECONDS = 0.5
# Small, since the text of each node is read by such pieces, too.
_CHUNK = 1 << 10
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_NAME = re.compile(rb"[A-Za-z_]\w*")
_MOST_MENDED = 20
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
    begun = time.thread_time()
    # A new parser each time: one that was stopped goes on where it stopped.
    parser = Parser(Language(language()))
    try:
        tree = parser.parse(
            lambda offset, _: data[offset : offset + _CHUNK],
            progress_callback=lambda *_: time.thread_time() - begun > _MOST_SECONDS,
        )
    except ValueError:
        raise UsageError(
            f"{name}: cannot be read as bash within half a second", "name the launch script alone"
        ) from None
    return tree.root_node


def parse_mended(text: str, name: str) -> Node:
    """Return the root of the tree of a text in which the grammar's one wrong cut is mended.

    It ends a word at the second of two variables, as in `$A/b-$C/d`, where `${C}` in its place is read.
    """
    root = parse(text, name)
    for _ in range(_MOST_MENDED):
        places = [node.end_byte for node in _lone_dollars(root)]
        if not places:
            break
        data = text.encode()
        for at in reversed(places):
            end = at + len(_NAME.match(data, at)[0])  # type: ignore[index]
            data = b"%b{%b}%b" % (data[:at], data[at:end], data[end:])
        text = data.decode()
        root = parse(text, name)
    return root


def _lone_dollars(root: Node) -> Iterator[Node]:
    """Yield each `$` that the grammar parts from the name behind it."""
    data, todo = bytes(root.text), [root]
    while todo:
        node = todo.pop()
        if node.type == "$" and node.parent.type == "concatenation" and _NAME.match(data, node.end_byte):
            yield node
        todo += reversed(node.children)


def text_of(node: Node) -> str:
    return bytes(node.text).decode("utf-8", "replace")


def line_of(node: Node) -> int:
    return int(node.start_point[0]) + 1


def named(node: Node) -> Iterator[Node]:
    """Return the children that are more than punctuation, without comments."""
    return (child for child in node.named_children if child.type != "comment")


_PRINTERS = ("echo", "printf", "cat", "tee")
# What they print stays text behind these.
_FILTERS = (*_PRINTERS, "grep", "sed", "awk", "tr", "head", "tail", "sort", "cut", "wc")
_SUBSTITUTIONS = ("command_substitution", "process_substitution")
_HERE = ("heredoc_redirect", "herestring_redirect")


def without_printed(text: str, name: str) -> str:
    """Return the script with blanks for such words, line by line; what cannot be read as bash stays as it is."""
    try:
        root = parse(text, name)
    except UsageError:
        return text
    data = text.encode()
    left = bytearray(data)
    # A node, and whether what its commands print is read by no program.
    todo = [(root, True)]
    while todo:
        node, is_shown = todo.pop()
        if node.type in _SUBSTITUTIONS:
            left[node.start_byte : node.end_byte] = data[node.start_byte : node.end_byte]
            is_shown = False
        elif node.type == "redirected_statement":
            is_shown = is_shown and all(_passes_on(command) for command in _behind_document(node))
        todo += _inside(node, is_shown)
        for words in _printed(node) if is_shown else ():
            blank = bytes(b if b == 10 else 32 for b in data[words.start_byte : words.end_byte])
            left[words.start_byte : words.end_byte] = blank
    return left.decode()


def _inside(node: Node, is_shown: bool) -> Iterator[tuple[Node, bool]]:
    """Yield the children, each with whether what it prints is only shown: another command of a pipeline may read it."""
    for child in reversed(node.children):
        yield child, is_shown
        if node.type == "pipeline" and child.is_named:
            is_shown = is_shown and _passes_on(child)


def _behind_document(node: Node) -> Iterator[Node]:
    """Yield the commands of a pipeline that begins behind a here-document, which the grammar puts into it."""
    for here in node.children:
        if here.type in _HERE:
            yield from (command for pipe in here.children if pipe.type == "pipeline" for command in pipe.named_children)


def _passes_on(node: Node) -> bool:
    return _program(node) in _FILTERS


def _program(node: Node | None) -> str:
    """Return the name of a plain command, redirected or not; "" for anything else."""
    if node is not None and node.type == "redirected_statement":
        node = node.child_by_field_name("body")
    name = node.child_by_field_name("name") if node is not None and node.type == "command" else None
    return text_of(name) if name is not None else ""


def _printed(node: Node) -> Iterator[Node]:
    """Yield the words of a command that prints, and the document that it is given."""
    if node.type in ("command", "redirected_statement") and _program(node) in _PRINTERS:
        for child in node.children:
            if child.type in _HERE:
                yield from (
                    each for each in child.children if each.type in ("heredoc_body", "string", "raw_string", "word")
                )
            elif node.type == "command" and child.type not in ("command_name", "variable_assignment", "file_redirect"):
                yield child
