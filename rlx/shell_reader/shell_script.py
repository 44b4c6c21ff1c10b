"""Describe what was read of a script: commands, variables, what it sources, and what was skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlx.shell_reader.shell_words import Word


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A program that the script would start, in the folder `workdir`, with the variables that it gets from the script.

    `is_certain`: it is in no branch that may or may not be taken.
    """

    words: tuple[Word, ...]
    environment: Mapping[str, Word]
    workdir: str
    line: int
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line of which the reader took something for granted, or left something out."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class ShellScript:
    """The commands in their order, the scripts that it sources, the variables that it sets, and what was skipped.

    `steps` is how much was done to read it.
    """

    commands: tuple[ShellCommand, ...]
    sourced: tuple[Word, ...]
    variables: Mapping[str, Word]
    skipped: tuple[Skipped, ...]
    steps: int = 0
