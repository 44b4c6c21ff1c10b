"""Options that take lists: `--seed 1,2,3`, `--seed 1 2 3` and `--seed 1 --seed 2 --seed 3` mean the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

NUMBER_LIST = "N,..."
"""The metavar of an option of whole numbers, by which it is recognised, as are the following."""
NAME_LIST = "NAME,..."
ARM_LIST = "ARM,..."
HOST_LIST = "HOST,..."
"""Not a list for Typer, but one text in which commas separate the hosts."""
_LISTS = frozenset({NUMBER_LIST, NAME_LIST, ARM_LIST, HOST_LIST})


def spelled_out(words: Iterable[str], params: Iterable[Any]) -> list[str]:
    """Return the words of a command with each value of a list after an option of its own, as Typer expects them.

    Only numbers may follow their option one by one: a name there may be an argument. Of an option of hosts, one value
    names all of them. Nothing is changed after a `--`.
    """
    metavars = {name: param.metavar for param in params if param.metavar in _LISTS for name in param.opts}
    spelled: list[str] = []
    hosts: dict[str, list[str]] = {}
    option = ""
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if word == "--":
            spelled += [word, *rest]
        elif name in metavars:
            # What follows is the option's, whatever it is: a wrong value is named as such.
            option, value = name, value if equals else next(rest, None)  # type: ignore[assignment]
            if value is None:
                spelled.append(word)
            elif metavars[name] == HOST_LIST:
                hosts.setdefault(name, []).append(value)
            else:
                spelled += _each(name, value)
        elif metavars.get(option) == NUMBER_LIST and word.replace(",", "").isdecimal():
            spelled += _each(option, word)
        else:
            option = ""
            spelled.append(word)
    return [*(f"{name}={','.join(values)}" for name, values in hosts.items()), *spelled]


def _each(option: str, value: str) -> list[str]:
    return [f"{option}={part.strip()}" for part in value.split(",")]
