"""Read YAML with line numbers, for the files of hosts: small, within limits, every value taken as it is written.

The YAML library is imported when there is a file to read: `rlx status` on this machine needs none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rlx.errors import UsageError
from rlx.secret_text import mask
from rlx.yaml_reader.reader import YamlError, YamlForm, YamlNode, YamlProblem, compose, text_value

_SHOWN_PROBLEMS = 20
_NOTHING = ("", "~", "null", "Null", "NULL")
# No refusal shows a value: it may be a password.
_UNREAD = "anchors, aliases and tags are not read; write the value itself"
_HOSTS = "file of hosts"
_FORM = YamlForm(
    what=_HOSTS,
    file=_HOSTS,
    most_nodes=10_000,
    most_levels=16,
    scalar=text_value,
    anchor=_UNREAD,
    tag=_UNREAD,
)


def read_nodes(text: str, file: str, what: str = _HOSTS) -> tuple[YamlNode | None, list[YamlProblem]]:
    """Return the root node of a YAML text, None for one without content, and what is wrong with single entries.

    `what` the text is is said in refusals. Raises UsageError with the line for what cannot be read.
    """
    try:
        return compose(text, replace(_FORM, what=what, file=what))
    except YamlError as error:
        problem = error.problems[-1]
        raise UsageError(f"{file}:{problem.line}: {problem.text}") from None


class Reader:
    """Takes values out of nodes and collects what is wrong with them, each with its line and its dotted key."""

    def __init__(self, file: str, found: Iterable[YamlProblem] = (), *, has_lines: bool = True) -> None:
        self._file = file
        self._has_lines = has_lines
        self._problems: list[tuple[int, str]] = []
        for problem in found:
            self._complain(problem.line, problem.key, problem.text)

    def place(self, node: YamlNode) -> str:
        """`file:line` of a node."""
        return self._place(node.line)

    def complain(self, node: YamlNode, key: str, text: str) -> None:
        self._complain(node.line, key, text)

    def _place(self, line: int) -> str:
        return f"{self._file}:{line}" if self._has_lines else self._file

    def _complain(self, line: int, key: str, text: str) -> None:
        where = f"{self._place(line)}: {key}" if key else self._place(line)
        self._problems.append((line, f"{where}: {mask(text)}"))

    def check(self) -> None:
        """Raise UsageError with everything that was wrong, in the order of the file."""
        lines = [text for _, text in sorted(self._problems, key=lambda problem: problem[0])]
        if more := len(lines) - _SHOWN_PROBLEMS:
            lines[_SHOWN_PROBLEMS:] = [f"… and {more} more"] if more > 0 else []
        if lines:
            raise UsageError("\n".join(lines))

    def entries(self, node: YamlNode, key: str) -> dict[str, tuple[YamlNode, YamlNode]]:
        """Key -> key node and value node; nothing at all where nothing is written."""
        if node.id != "mapping":
            if not is_nothing(node):
                self.complain(node, key, f"must be a map of `key: value` lines, found {_described(node)}")
            return {}
        return {name.value: (name, value) for name, value in node.value}

    def section(self, node: YamlNode, key: str, known: Sequence[str], meant: Mapping[str, str]) -> dict[str, YamlNode]:
        """Return the values of a map by key.

        An unknown key is a problem; `meant` says what people mean by a foreign one.
        """
        found = {}
        for name, (name_node, value) in self.entries(node, key).items():
            if name in known:
                found[name] = value
            else:
                self.complain(
                    name_node, f"{key}.{name}" if key else name, f"unknown key; {_nearest(name, known, meant)}"
                )
        return found

    def text(self, node: YamlNode, key: str) -> str | None:
        """Return a word or text, None (and a problem) for anything else."""
        if node.id != "scalar" or is_nothing(node):
            self.complain(node, key, f"must be text, found {_described(node)}")
            return None
        return str(node.value)

    def items(self, node: YamlNode, key: str) -> list[tuple[YamlNode, str]]:
        """Return the nodes of a list, each with its key."""
        if node.id != "sequence":
            self.complain(node, key, f"must be a list, found {_described(node)}")
            return []
        return [(item, f"{key}[{position}]") for position, item in enumerate(node.value)]


def is_nothing(node: YamlNode) -> bool:
    """Return a key without a value."""
    return node.id == "scalar" and node.is_plain and node.value in _NOTHING


def _described(node: YamlNode) -> str:
    if node.id != "scalar":
        return "a list" if node.id == "sequence" else "a map"
    # The value itself is not shown: it may be a password.
    return "nothing" if is_nothing(node) else "a word"


def _nearest(name: str, known: Sequence[str], meant: Mapping[str, str]) -> str:
    import difflib

    near = [meant[name]] if name in meant else difflib.get_close_matches(name.lower(), known, n=1)
    return f"did you mean {near[0]}?" if near else f"valid here: {', '.join(known)}"
