"""Blank what a script only prints or writes into a file: the words of `echo` and others, and their here-documents."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.errors import UsageError
from rlx.shell_reader.shell_syntax import Node, parse, text_of

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
