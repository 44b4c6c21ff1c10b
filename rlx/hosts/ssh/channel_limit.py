"""Count who uses a shared connection, because sshd lets ten sessions share one (MaxSessions)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

_MOST_COMMANDS = 4
_MOST_STREAMS = 6
_commands: defaultdict[str, BoundedSemaphore] = defaultdict(lambda: BoundedSemaphore(_MOST_COMMANDS))
_streams: defaultdict[str, BoundedSemaphore] = defaultdict(lambda: BoundedSemaphore(_MOST_STREAMS))


@contextmanager
def turn(destination: str, *, streaming: bool) -> Iterator[bool]:
    """Take a turn: a command waits for it. A stream may last for hours, so one too many connects by itself: False."""
    turns = (_streams if streaming else _commands)[destination]
    shares = turns.acquire(blocking=not streaming)
    try:
        yield shares
    finally:
        if shares:
            turns.release()
