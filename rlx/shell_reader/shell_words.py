"""Describe a script that was read, and its words, parts of which only the shell itself will know.

While a script is evaluated such a part is in the text as a number between two marks, which no script can contain,
so that words are joined, split and stored as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

BEGIN, END = "\ue000", "\ue001"
_MARK = re.compile(f"{BEGIN}(\\d+){END}")
_MARKS = str.maketrans("", "", BEGIN + END)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that the script does not set: its environment may."""

    name: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """What only the shell will know, as it is written."""

    source: str


Part = str | Variable | Unknown


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command, in parts."""

    parts: tuple[Part, ...]

    @property
    def is_known(self) -> bool:
        """Return whether nothing but variables from outside is missing."""
        return not any(isinstance(part, Unknown) for part in self.parts)

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts if isinstance(part, Variable))

    def text(self, variable: Callable[[str], str] = lambda name: f"${{{name}}}") -> str:
        """Return the text: `variable` says how one from outside is written, what is unknown is as in the script."""
        return "".join(_text(part, variable) for part in self.parts)


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A program that the script would start, in the folder `workdir`, with the variables that it gets from the script.

    `is_certain`: it is in no branch that may or may not be taken. `document` is the text that it gets as its input.
    """

    words: tuple[Word, ...]
    environment: Mapping[str, Word]
    workdir: str
    line: int
    is_certain: bool = True
    document: Word | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line of which the reader took something for granted, or left something out."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class ShellScript:
    """The commands in their order, the scripts that it sources, the variables that it sets, and what was skipped.

    `steps` is how much was done to read it. `required` are variables from outside without which it ends, each with its
    line; `from_outside` all that it reads before it sets them.
    """

    commands: tuple[ShellCommand, ...]
    sourced: tuple[Word, ...]
    variables: Mapping[str, Word]
    skipped: tuple[Skipped, ...]
    steps: int = 0
    required: Mapping[str, int] = field(default_factory=dict)
    from_outside: tuple[str, ...] = ()


def _text(part: Part, variable: Callable[[str], str]) -> str:
    if isinstance(part, str):
        return part
    return variable(part.name) if isinstance(part, Variable) else part.source


class Marks:
    """The parts that marked text stands for."""

    def __init__(self) -> None:
        self._parts: list[Variable | Unknown] = []
        self._numbers: dict[Variable | Unknown, int] = {}
        # Each command has all of the environment.
        self._words: dict[str, Word] = {}

    def mark(self, part: Variable | Unknown) -> str:
        number = self._numbers.setdefault(part, len(self._parts))
        if number == len(self._parts):
            self._parts.append(part)
        return f"{BEGIN}{number}{END}"

    def word(self, text: str) -> Word:
        word = self._words.get(text)
        if word is None:
            word = self._words[text] = Word(tuple(self._split(text)))
        return word

    def only_variable(self, text: str) -> str:
        """Return the name of the variable from outside that is all of the text; "" for any other."""
        match = _MARK.fullmatch(text)
        part = self._parts[int(match[1])] if match else None
        return part.name if isinstance(part, Variable) else ""

    def shown(self, text: str) -> str:
        return self.word(text).text()

    def _split(self, text: str) -> Iterator[Part]:
        end = 0
        for match in _MARK.finditer(text):
            if match.start() > end:
                yield text[end : match.start()]
            yield self._parts[int(match[1])]
            end = match.end()
        if end < len(text):
            yield text[end:]


def is_known(text: str) -> bool:
    """Return whether no part of marked text is missing."""
    return BEGIN not in text


def without_marks(text: str) -> str:
    """Return a script's text without the characters that mark parts here."""
    return text.translate(_MARKS)
