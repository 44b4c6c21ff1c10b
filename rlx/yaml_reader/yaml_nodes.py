"""Values of a YAML text that know where they stand, and the error for a text that cannot be read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A value and the marks (line and column from 0, index) at which it begins and ends.

    `value` is a scalar, the nodes of a list, or the pairs of nodes of a map, as `id` says: scalar, sequence, mapping.
    """

    id: str
    value: Any
    start_mark: Any
    end_mark: Any
    is_plain: bool = False
    flow_style: bool = False

    @property
    def line(self) -> int:
        """The line at which it begins, from 1."""
        return int(self.start_mark.line) + 1


@dataclass(frozen=True, slots=True)
class YamlProblem:
    """One thing that is wrong, in a line counted from 1. `key` is dotted, empty where no key is concerned."""

    line: int
    key: str
    text: str

    def __str__(self) -> str:
        """`line: key: text`, to stand behind the name of a file."""
        return ": ".join(part for part in (str(self.line), self.key, self.text) if part)


class YamlError(Exception):
    """A text that cannot be read: `problems` are those found on the way, of which the last one stopped the reading."""

    def __init__(self, problems: Iterable[YamlProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems[-1].text)
