"""A terminal of a given size, in which a command runs as a person sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from typing import NamedTuple

from tests.cli.support import plain

# Said where an answer takes over two seconds, as it may on a busy machine: no part of the answer.
PATIENCE = re.compile("^(?:waiting for the (?:hosts|log)|reading the runs|planning) …\n", re.MULTILINE)


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
    """Run rlx with all its streams on a terminal of so many columns, to its end. That it waits is left out."""
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
    return Seen(PATIENCE.sub("", written.decode().replace("\r\n", "\n")), command.wait(timeout_s))


def detached(terminal: int, client: int) -> int:
    """Type tmux's keys to detach until the client goes; its exit code.

    Keys that come together count as pasted, and on a busy machine they do although time has passed between them.
    """
    for pause in (0.2, 1.0, 5.0, 20.0):
        for key in (b"\x02", b"d"):
            with suppress(OSError):  # it has gone by the keys before
                os.write(terminal, key)
            time.sleep(pause)
        ended, status = os.waitpid(client, os.WNOHANG)
        if ended:
            os.close(terminal)
            return os.waitstatus_to_exitcode(status)
    raise AssertionError("the client does not detach")


def _read(terminal: int) -> bytes:
    """Read what comes next; nothing once nobody has the terminal open, which Linux calls an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
