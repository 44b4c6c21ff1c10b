"""A terminal of a given size, in which a command runs as a person sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from typing import NamedTuple

from tests.cli.support import plain


class Seen(NamedTuple):
    """What was written to the terminal, and the exit code."""

    written: str
    code: int

    @property
    def text(self) -> str:
        """What a person reads: without colours and moves of the cursor."""
        return plain(self.written)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.text.splitlines()]


def on_terminal(*arguments: str, columns: int = 80, timeout_s: float = 60, **variables: str) -> Seen:
    """Run rlx with all its streams on a terminal of so many columns, to its end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    unset = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = subprocess.Popen(
        [sys.executable, "-m", "rlx", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**unset, "TERM": "xterm", **variables},
        start_new_session=True,
    )
    os.close(theirs)
    written = bytearray()
    while part := _read(ours):
        written += part
    os.close(ours)
    return Seen(written.decode().replace("\r\n", "\n"), command.wait(timeout_s))


def _read(terminal: int) -> bytes:
    """Read what comes next; nothing once nobody has the terminal open, which Linux calls an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
