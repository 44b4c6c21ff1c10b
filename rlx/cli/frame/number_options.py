"""Options that take several whole numbers: `--seed 1 2 3` is `--seed 1 --seed 2 --seed 3`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any

SEVERAL = "N..."
"""The metavar of such an option; by it the option is recognised."""


def spelled_out(words: Iterable[str], command: Any) -> list[str]:
    """Return the words with each number after an option of its own, as Typer expects them.

    `command` is what `typer.main.get_command` returns: a command, or a group of commands, of which the words name one.
    """
    words = [*words]
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    options = [name for option in command.params if option.metavar == SEVERAL for name in option.opts]
    return [*one_by_one(words, options)]


def one_by_one(words: Iterable[str], options: Collection[str]) -> Iterator[str]:
    """Yield `words` with one of `options` before each of its numbers; nothing is changed after a `--`."""
    rest = iter(words)
    option = ""
    for word in rest:
        name, equals, _ = word.partition("=")
        if option and word.isdecimal():
            yield from (option, word)
            continue
        option = name if name in options else ""
        yield word
        if word == "--":
            break
        if option and not equals:
            # The first value is the option's, whatever it is: a wrong one is named as such.
            yield from islice(rest, 1)
    yield from rest
