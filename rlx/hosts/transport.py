"""Reach a host: one Protocol, so that nothing above it knows whether a host is this machine or far away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from rlx.model import Cmd

_SHOWN_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ended. `code` is its exit status as a shell says it: 128 + n for one that signal n killed, 127
    for a program that is not there."""

    code: int
    out: bytes
    err: bytes


class Transport(Protocol):
    """A way to run commands on one host, in a clean environment: of the caller's shell only home, path and locale.

    In a container the environment is the container's own. Safe to use from several threads at once.
    """

    def run(self, cmd: Cmd, *, stdin: bytes = b"", timeout_s: float) -> Completed:
        """Run to the end. A non-zero exit is an answer.

        Raises a HostError if the host cannot be asked, TimedOut (and ends the command) if it takes too long, TooMuch
        (as well) if over 66 MiB come back.
        """
        ...

    def stream(self, cmd: Cmd) -> AbstractContextManager[Iterator[bytes]]:
        """Yield the output in pieces as it comes, until the command or the `with` block ends, and the command with it.

        The exit status and stderr are not returned: a command that may fail says so in its output. The
        iterator raises ConnectionLost where the connection ended instead of the command, and other HostErrors.
        """
        ...


def shown(cmd: Cmd) -> str:
    """Return the command for a message: masked, on one line, at most 80 characters; a whole script in it as `…`."""
    text = str(Cmd(*("…" if isinstance(word, str) and "\n" in word else word for word in cmd.arguments)))
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
