"""Describe the problems of a recipe with their places in a file, and the one error that carries all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rlx.errors import UsageError

SCHEMA, YAML, OPEN = "RLX001", "RLX002", "RLX004"
UNDECIDED = "???"
"""What stands in a recipe for a value that a person has still to write."""
# A reader needs no more of them, and to word each costs time.
SHOWN_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """The place of a value: a file and a line, or an option (line 0). `arm` is set inside a partial recipe."""

    file: str
    line: int = 0
    arm: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. `key` is dotted, or empty where no key is concerned; `text` names the fix too."""

    place: SourceLocation
    key: str
    text: str
    id: str = SCHEMA

    def __str__(self) -> str:
        parts = [str(self.place), f"arm {self.place.arm}" if self.place.arm else "", self.key, self.text]
        return ": ".join(part for part in parts if part)


class RecipeError(UsageError):
    """An invalid recipe. `problems` are in the order of the files."""

    def __init__(self, problems: Iterable[Problem], hint: str = "") -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems[:SHOWN_PROBLEMS]]
        if more := len(self.problems) - len(lines):
            lines.append(f"… and {more} more")
        super().__init__("\n".join(lines), hint)


def refusal(place: SourceLocation, text: str, key: str = "", id: str = YAML) -> RecipeError:
    """Return the error for what stops the reading."""
    return RecipeError([Problem(place, key, text, id)])
