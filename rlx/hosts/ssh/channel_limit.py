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
    """Yield a command waits. A stream may last for hours, so one too many is told to connect by itself: False."""
    turns = (_streams if streaming else _commands)[destination]
    shares = turns.acquire(blocking=not streaming)
    try:
        yield shares
    finally:
        if shares:
            turns.release()
