"""Notice a login script that ate what was sent to the shell behind it."""

from __future__ import annotations

import time

READY = b"rlx-ready\n"
_PATIENCE_S = 2.0
_KEPT_BYTES = 64


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
        """Look at the next piece of stdout."""
        if self.has_begun:
            return
        text = self._before + chunk
        if self._ready is None and READY in text:
            self._ready = time.monotonic()
        self.has_begun = self._mark in text
        self._before = text[-_KEPT_BYTES:]

    def asks_again(self) -> bool:
        """Tell whether to send all again; True once at most."""
        due = self._ready is not None and time.monotonic() - self._ready > _PATIENCE_S
        if self.has_begun or self._is_sent_again or not due:
            return False
        self._is_sent_again = True
        return True
