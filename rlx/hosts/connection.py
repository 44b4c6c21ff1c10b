"""Start a remote shell: the Protocol that two clients of ssh and this machine's docker implement.

The opening of an answer shows whether a login script consumed what was sent to the shell behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from rlx.errors import RlxError
from rlx.model import Cmd

READY = b"rlx-ready\n"
_PATIENCE_S = 2.0
_KEPT_BYTES = 64


@dataclass(frozen=True, slots=True)
class ConnectionFailure:
    """A shell that ended before its command did. `began`: the command had begun."""

    cmd: Cmd
    code: int
    said: str
    began: bool


MOST_ANSWER_BYTES = 66 * 1024**2
"""What an answer may have on stdout, and again on stderr. The longest that rlx asks for, new pieces of logs, has
60 MiB at most; what has no limit comes as a stream."""

LeftSeconds = Callable[[], float | None]
"""Returns how long to wait for the next piece of a stream; None: as long as that takes."""


class AnswerTooLong(Exception):
    """More than MOST_ANSWER_BYTES came; what was asked goes on."""


class Session(Protocol):
    """A started shell: its pipes."""

    def exchange(self, data: bytes, timeout_s: float, opening: Opening) -> bytes:
        """Return all of stdout, after sending `data`; stdin stays open till then.

        Raises TimeoutError or AnswerTooLong.
        """
        ...

    def send(self, data: bytes) -> None:
        """Send more, whether or not it is read."""
        ...

    def chunks(self, data: bytes, left_s: LeftSeconds) -> Iterator[bytes]:
        """Yield stdout as it comes, after sending `data`; stdin stays open till the session is closed.

        Where nothing came in `left_s()`, an empty piece.
        """
        ...

    def end(self) -> tuple[int, bytes]:
        """Return the exit status of the connection and all of stderr, once stdout is at its end."""
        ...


class Connection(Protocol):
    """A way to start a shell: its errors are its own."""

    host: str

    def open(self, line: str, *, streaming: bool) -> AbstractContextManager[Session]:
        """Start `line` in the login shell there. Leaving the block ends the session, and with it the command."""
        ...

    def open_ahead(self, line: str) -> None:
        """Start `line` for an `open` to come, where that saves time. Connecting is not what it saves."""
        ...

    def explain(self, failure: ConnectionFailure) -> RlxError | None:
        """Return the error that a failure means; None for a failure that is worth a second try and did not arrive."""
        ...


class Opening:
    """The beginning of an answer: the shell says READY when it begins to read, and the command begins with `mark`.

    What is ready and does not begin has got nothing. Then all is sent again, once. If the command had begun after all,
    its feeder passes over what is too much.
    """

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._before = b""
        self._ready: float | None = None
        self.has_begun = self._is_sent_again = False

    def take(self, chunk: bytes) -> None:
        """Take the next piece of stdout."""
        if self.has_begun:
            return
        text = self._before + chunk
        if self._ready is None and READY in text:
            self._ready = time.monotonic()
        self.has_begun = self._mark in text
        self._before = text[-_KEPT_BYTES:]

    def asks_again(self) -> bool:
        """Return whether to send all again; True once at most."""
        due = self._ready is not None and time.monotonic() - self._ready > _PATIENCE_S
        if self.has_begun or self._is_sent_again or not due:
            return False
        self._is_sent_again = True
        return True
