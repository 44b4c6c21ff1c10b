"""How rlx reaches a host: one Protocol, so that nothing above it knows whether a host is this machine or far away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from rlx.plan import Cmd


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ended. `code` is its exit status, or minus the signal that killed it."""

    code: int
    out: bytes
    err: bytes


class Transport(Protocol):
    """Runs commands on one host, in a clean environment: nothing of the caller's shell but home, path and locale."""

    def run(self, cmd: Cmd, *, stdin: bytes = b"", timeout_s: float) -> Completed:
        """Run to the end. A non-zero exit is an answer; RlxError only if it cannot be started or takes too long."""
        ...

    def stream(self, cmd: Cmd) -> AbstractContextManager[Iterator[bytes]]:
        """The output in pieces as it comes, until the command or the `with` block ends; then the command is gone."""
        ...
