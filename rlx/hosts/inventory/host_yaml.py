"""YAML with line numbers, for the files of hosts: small, within limits, every value taken as it is written.

The YAML library is imported when there is a file to read: `rlx status` on this machine needs none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlx.errors import UsageError

_DEPTH_LIMIT = 16
_SHOWN_PROBLEMS = 20
_NOTHING = ("", "~", "null", "Null", "NULL")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def compose(text: str, file: str) -> Any:
    """The root node of a YAML text, None for one without content. Raises UsageError with the line."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # libyaml composes by recursion and crashes on deep nesting; its events come one by one.
        _check_events(yaml.parse(text, Loader=loader), file)
        return yaml.compose(text, Loader=loader)
    except yaml.YAMLError as error:
        raise UsageError(f"{file}:{_explained(error)}") from None


def _explained(error: Any) -> str:
    """libyaml names the line at which it gave up, and where the value began that it could not end."""
    mark, begun = getattr(error, "problem_mark", None), getattr(error, "context_mark", None)
    since = f" ({error.context} that begins in line {begun.line + 1})" if begun and mark else ""
    return f"{mark.line + 1 if mark else 1}: {getattr(error, 'problem', None) or 'is no YAML text'}{since}"


def _check_events(events: Iterator[Any], file: str) -> None:
    import yaml

    depth = 0
    for event in events:
        line = event.start_mark.line + 1
        if getattr(event, "anchor", None) or getattr(event, "tag", None):
            raise UsageError(f"{file}:{line}: anchors, aliases and tags are not read; write the value itself")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEPTH_LIMIT:
            raise UsageError(f"{file}:{line}: is nested more than {_DEPTH_LIMIT} levels deep")


class Reader:
    """Takes values out of nodes and collects what is wrong with them, each with its line and its dotted key."""

    def __init__(self, file: str, *, has_lines: bool = True) -> None:
        self._file = file
        self._has_lines = has_lines
        self._problems: list[tuple[int, str]] = []

    def place(self, node: Any) -> str:
        """`file:line` of a node."""
        return f"{self._file}:{node.start_mark.line + 1}" if self._has_lines else self._file

    def complain(self, node: Any, key: str, text: str) -> None:
        where = f"{self.place(node)}: {key}" if key else self.place(node)
        self._problems.append((node.start_mark.line, f"{where}: {text}"))

    def check(self) -> None:
        """Raises UsageError with everything that was wrong, in the order of the file."""
        lines = [text for _, text in sorted(self._problems, key=lambda problem: problem[0])]
        if more := len(lines) - _SHOWN_PROBLEMS:
            lines[_SHOWN_PROBLEMS:] = [f"… and {more} more"] if more > 0 else []
        if lines:
            raise UsageError("\n".join(lines))

    def entries(self, node: Any, key: str) -> dict[str, tuple[Any, Any]]:
        """Key -> key node and value node; nothing at all where nothing is written."""
        if node.id != "mapping":
            if not is_nothing(node):
                self.complain(node, key, f"must be a map of `key: value` lines, found {_described(node)}")
            return {}
        found: dict[str, tuple[Any, Any]] = {}
        for name, value in node.value:
            if name.id != "scalar":
                self.complain(name, key, "a list or map cannot be a key")
            elif name.value in found:
                first = found[name.value][0].start_mark.line + 1
                self.complain(name, _below(key, name.value), f"appears twice, first in line {first}; keep one")
            else:
                found[name.value] = (name, value)
        return found

    def section(self, node: Any, key: str, known: Sequence[str], meant: Mapping[str, str]) -> dict[str, Any]:
        """The values of a map by key. An unknown key is a problem; `meant` says what people mean by a foreign one."""
        found = {}
        for name, (name_node, value) in self.entries(node, key).items():
            if name in known:
                found[name] = value
            else:
                self.complain(name_node, _below(key, name), f"unknown key; {_nearest(name, known, meant)}")
        return found

    def text(self, node: Any, key: str) -> str | None:
        """A word or text, None (and a problem) for anything else."""
        if node.id != "scalar" or is_nothing(node):
            self.complain(node, key, f"must be text, found {_described(node)}")
            return None
        if control := _CONTROL.search(node.value):
            self.complain(node, key, f"contains the control character U+{ord(control[0]):04X}")
            return None
        return str(node.value)

    def items(self, node: Any, key: str) -> list[tuple[Any, str]]:
        """The nodes of a list, each with its key."""
        if node.id != "sequence":
            self.complain(node, key, f"must be a list, found {_described(node)}")
            return []
        return [(item, f"{key}[{position}]") for position, item in enumerate(node.value)]


def is_nothing(node: Any) -> bool:
    """A key without a value."""
    return node.id == "scalar" and not node.style and node.value in _NOTHING


def _described(node: Any) -> str:
    if node.id != "scalar":
        return "a list" if node.id == "sequence" else "a map"
    # The value itself is not shown: it may be a password.
    return "nothing" if is_nothing(node) else "a word"


def _nearest(name: str, known: Sequence[str], meant: Mapping[str, str]) -> str:
    import difflib

    near = [meant[name]] if name in meant else difflib.get_close_matches(name.lower(), known, n=1)
    return f"did you mean {near[0]}?" if near else f"valid here: {', '.join(known)}"


def _below(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
