"""Build commands as structured values, quoted once per shell layer and masked in every print.

    Cmd("ssh", "host", Cmd("docker", "exec", "c", "sh", "-c", Cmd("echo", user_input)))

A nested Cmd becomes one argument of the outer command: it is rendered as a shell line and that line is quoted.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

MASK = "***"


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that may be used but never shown."""

    value: str

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__


@dataclass(frozen=True, init=False)
class Cmd:
    """A command and its arguments. `str()` is masked; `raw()` is what a shell runs; `argv()` is what exec gets.

    An argument may hold any character but NUL, which neither a shell nor exec can carry: ValueError.
    """

    arguments: tuple[str | Secret | Cmd, ...]

    def __init__(self, *arguments: str | Secret | Cmd) -> None:
        object.__setattr__(self, "arguments", arguments)
        for argument in arguments:
            text = argument.value if isinstance(argument, Secret) else argument
            if isinstance(text, str) and "\0" in text:
                raise ValueError("a command argument cannot contain a NUL byte")

    def argv(self) -> list[str]:
        """Return the arguments as exec takes them: nested commands as one shell line each."""
        return [_plain(argument) for argument in self.arguments]

    def raw(self) -> str:
        """Return one line for a POSIX shell, with secrets in the clear."""
        return " ".join(shlex.quote(text) for text in self.argv())

    def __str__(self) -> str:
        return " ".join(_masked(argument) for argument in self.arguments)

    __repr__ = __str__


def _plain(argument: str | Secret | Cmd) -> str:
    if isinstance(argument, Cmd):
        return argument.raw()
    return argument.value if isinstance(argument, Secret) else argument


def _masked(argument: str | Secret | Cmd) -> str:
    return MASK if isinstance(argument, Secret) else shlex.quote(str(argument))
