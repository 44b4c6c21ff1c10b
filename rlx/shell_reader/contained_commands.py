"""Find the commands of a script that reach the functions and programs which keep them within a run.

A bash that reads those functions at its start finds them by a plain name. What stands behind `nohup` or `xargs` is
found on PATH, where the programs come first until the script changes it. Nothing is said to be found after such a
change, nor through sudo, by a path, or in another language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rlx.errors import UsageError
from rlx.shell_reader.shell_syntax import Node, parse, text_of

_PREFIXES = ("nohup", "setsid", "timeout", "nice", "ionice", "stdbuf", "xargs", "exec", "command", "env", "time")
"""Programs and words of the shell that start a program by its name, from PATH."""
_OPTION = re.compile(r"-.*|\d+[smhd]?|\w+=.*")
# Of env: an environment without the functions, or another PATH.
_BARE = re.compile(r"-i|-|--ignore-environment|-u.*|--unset.*|-S.*|PATH=.*|BASH_ENV=.*")
_SHELLS = ("bash", "/bin/bash", "/usr/bin/bash")
_CHANGES = (
    *("conda", "mamba", "micromamba", "pyenv", "workon", "module", "ml", "spack"),
    *("eval", "builtin", "enable", "alias", "unalias", "hash", "unset"),
)
# Launches read these before the script, too.
_HARMLESS_SOURCE = re.compile(r"['\"]?/\S*/set_env\.sh['\"]?")
_VARIABLES = re.compile(r"(?:PATH|BASH_ENV|RLX_CONTAINED\w*|RLX_RUN\w*)\+?=")
_MOST_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Reach:
    """The names that a host's bash resolves to the functions; `programs`: those programs come first on its PATH."""

    functions: frozenset[str] = frozenset()
    programs: bool = False


def without_contained(text: str, name: str, reach: Reach) -> str:
    """Return the script, of the same length, with `:` for the name of each such command.

    A script that cannot be read as bash is returned as it is.
    """
    try:
        return _without(text, name, reach, _MOST_DEPTH) if reach.functions else text
    except UsageError:
        return text


def _without(text: str, name: str, reach: Reach, depth: int) -> str:
    root = parse(text, name)
    data = bytearray(text.encode())
    first_change = min(_changes(root), default=len(data))
    own = {text_of(node.child_by_field_name("name")) for node in _all(root) if node.type == "function_definition"}
    for node in _all(root):
        if node.type != "command" or (limit := _limit(node, first_change, len(data))) < node.end_byte:
            continue
        words = [child for child in node.named_children if child.type != "variable_assignment"]
        for found in _names(words, reach, own):
            data[found.start_byte : found.end_byte] = b":".ljust(found.end_byte - found.start_byte)
        for inner in _scripts(words, trap=limit == first_change == len(data)) if depth else ():
            _replace(data, inner, lambda part: _without(part, name, reach, depth - 1))
    return data.decode()


def _limit(node: Node, first_change: int, end: int) -> int:
    """Return up to where a command may stand: what a function or a loop holds runs later than it is written."""
    outer = node.parent
    begin = None
    while outer is not None:
        if outer.type == "function_definition":
            return end if first_change == end else 0
        if outer.type in ("for_statement", "c_style_for_statement", "while_statement"):
            begin = outer
        outer = outer.parent
    return 0 if begin is not None and begin.start_byte <= first_change < begin.end_byte else first_change


def _changes(root: Node) -> Iterator[int]:
    """Yield where the script changes what its shell finds by a name."""
    for node in _all(root):
        if node.type == "unset_command" or (node.type == "variable_assignment" and _VARIABLES.match(text_of(node))):
            yield node.start_byte
        elif node.type == "command":
            words = [text_of(child) for child in node.named_children]
            sources = words[:1] in (["source"], ["."]) and not _HARMLESS_SOURCE.fullmatch(" ".join(words[1:2]))
            if sources or (words and words[0] in _CHANGES):
                yield node.start_byte


def _names(words: list[Node], reach: Reach, own: set[str]) -> Iterator[Node]:
    """Yield the word of a command that names a function, or one of the programs behind others that start it."""
    texts = [text_of(word) for word in words]
    if not texts:
        return
    at = 0
    while at < len(texts) and texts[at] in _PREFIXES:
        if texts[at] == "env" and any(_BARE.fullmatch(text) for text in texts[at + 1 :]):
            return
        at += 1
        while at < len(texts) and _OPTION.fullmatch(texts[at]):
            at += 1
    if at == len(texts) or texts[at] not in reach.functions or (at > 0 and not reach.programs):
        return
    joins = texts[at : at + 2] == ["ray", "start"] and any(text.startswith("--address") for text in texts[at:])
    if not joins and (at > 0 or texts[at] not in own):
        yield words[at]


def _scripts(words: list[Node], *, trap: bool) -> Iterator[Node]:
    """Yield the words that bash reads as a script: of `bash -c`, and of `trap` where nothing changes before it runs."""
    texts = [text_of(word) for word in words]
    if texts[:1] == ["trap"] and trap and len(words) > 1:
        yield words[1]
    elif texts and texts[0] in _SHELLS and len(words) > 2 and texts[1] in ("-c", "-ec", "-xc", "-exc"):
        yield words[2]


def _replace(data: bytearray, word: Node, change: Callable[[str], str]) -> None:
    """Change the text of a quoted word in its place, where it holds nothing but text."""
    source = data[word.start_byte : word.end_byte].decode()
    if word.type not in ("raw_string", "string") or len(source) < 2 or "\\" in source:
        return
    inside = change(source[1:-1])
    data[word.start_byte : word.end_byte] = f"{source[0]}{inside}{source[-1]}".encode()


def _all(root: Node) -> Iterator[Node]:
    todo = [root]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(reversed(node.children))
