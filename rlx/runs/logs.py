"""Read and follow the logs of runs on their hosts.

A log is followed through lost connections, every line once and in order: the host sends blocks that say which part of
the log they hold (logs.sh), and a new connection continues with the next byte.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from rlx.errors import RlxError, UsageError
from rlx.hosts import transport_for
from rlx.hosts.host_errors import ConnectionLost, TimedOut, Unreachable, reading_answer
from rlx.model import LOCAL, Cmd
from rlx.resources import payload_folder
from rlx.runs import supervisor
from rlx.runs.run import RunRef

_PASSING = (ConnectionLost, TimedOut, Unreachable)
"""Errors that may pass. A changed key or a refused login does not."""
_WAS_CUT = "its log became shorter (copied and cut by a rotation?); lines that were written just before are lost here"
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 15.0
_LONGEST_HEADER = 4096
LONGEST = 256 * 1024
"""How much of a line is kept. Some logs have lines of hundreds of megabytes."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which lines to read: the last `lines` of those that contain `pattern`, at most `since_seconds` old.

    The pattern is an extended regular expression, or literal text if it is `fixed`.
    """

    lines: int | None = None
    pattern: str | None = None
    since_seconds: int | None = None
    fixed: bool = False

    @property
    def kind(self) -> str:
        """Return the name of the kind in logs.sh."""
        if self.pattern is None:
            return "all"
        return "fixed" if self.fixed else "regex"

    def check(self) -> None:
        """Raise UsageError for a pattern that grep cannot read."""
        if self.pattern is None or self.fixed:
            return
        probe = transport_for(LOCAL).run(Cmd("grep", "-aE", "-e", self.pattern), stdin=b"", timeout_s=10)
        if probe.code > 1:
            reason = probe.err.decode(errors="replace").strip().removeprefix("grep: ")
            raise UsageError(
                f"--grep {self.pattern!r} is not a regular expression of grep -E: {reason}",
                "escape with a backslash any ( ) [ ] { } + ? * | . that are meant literally, or say -F",
            )


def read_log(ref: RunRef, query: LogQuery) -> Iterator[bytes]:
    """Yield the lines that exist now, without line ends. Raises HostError."""
    with transport_for(ref.place).stream(_log_command("read", ref, query, number(query.since_seconds))) as chunks:
        yield from split_lines(chunks)


def follow_log(ref: RunRef, query: LogQuery, notice: Callable[[str], None]) -> Iterator[bytes]:
    """Yield existing and new lines until the run's end is recorded. `notice` gets messages for the user.

    Raises HostError if the host cannot be reached at first, or refuses later; during an outage it waits.
    """
    follower = _Follower(ref, query, notice)
    while not follower.is_over:
        yield from follower.connection()


def _log_command(verb: str, ref: RunRef, query: LogQuery, *more: str) -> Cmd:
    """Return a call of logs.sh, which travels as an argument because a stream has no standard input."""
    options = (query.kind, query.pattern or "", number(query.lines))
    return Cmd("sh", "-c", _script(), "rlx-logs", verb, ref.remote_dir, *options, *more)


def number(value: int | None) -> str:
    return "" if value is None else str(value)


@cache
def _script() -> str:
    return supervisor.layout() + (payload_folder() / "logs.sh").read_text(encoding="utf-8")


# ---- following a log -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Cursor:
    """How many bytes have arrived: `taken` of the block that begins at byte `at` of the log of this attempt."""

    attempt: str = ""
    inode: str = ""
    at: int = 0
    taken: int = 0


class _Follower:
    def __init__(self, ref: RunRef, query: LogQuery, notice: Callable[[str], None]) -> None:
        self.is_over = False
        self._ref, self._query, self._notice = ref, query, notice
        self._cursor = _Cursor()
        self._lines = Lines()
        self._pause_s = 0.0

    def connection(self) -> Iterator[bytes]:
        """Yield the lines of one connection; wait before returning from one that broke."""
        try:
            stream = transport_for(self._ref.place).stream(self._command())
            with stream as chunks, reading_answer(self._ref.host, "logs.sh"):
                yield from self._records(_Pieces(chunks))
            reason = "the connection ended"
        except _PASSING as error:
            if not self._cursor.attempt:
                raise
            reason = error.message.splitlines()[0]
        if not self.is_over:
            self._wait(reason)

    def _command(self) -> Cmd:
        at = self._cursor
        # Where to begin applies once: after a lost connection everything else is read.
        query = replace(self._query, lines=None) if at.attempt else self._query
        return _log_command("follow", self._ref, query, at.attempt, at.inode, number(at.at), number(at.taken))

    def _records(self, pieces: _Pieces) -> Iterator[bytes]:
        while words := pieces.line().split():
            if self._pause_s:
                self._notice(f"{self._ref.host} answers again; nothing is missing")
                self._pause_s = 0.0
            kind, *values = words
            if kind == b"data":
                yield from self._block(pieces, int(values[0]), int(values[1]))
            elif kind == b"log":
                attempt, inode, at, taken = values
                yield from self._open(attempt.decode(), inode.decode(), int(at), int(taken))
            elif kind == b"end":
                self.is_over = True
                yield from self._lines.rest()
            elif kind == b"gone":
                raise RlxError(f"{self._ref.host}: there is no {self._ref.remote_dir} (any more)")

    def _block(self, pieces: _Pieces, end: int, count: int) -> Iterator[bytes]:
        while count:
            piece = pieces.some(count)
            if not piece:
                return
            count -= len(piece)
            # Counted before the lines are yielded: they are in `_lines` already, even if the caller stops.
            self._cursor = replace(self._cursor, taken=self._cursor.taken + len(piece))
            yield from self._lines.feed(piece)
        self._cursor = replace(self._cursor, at=end, taken=0)

    def _open(self, attempt: str, inode: str, at: int, taken: int) -> Iterator[bytes]:
        before, self._cursor = self._cursor, _Cursor(attempt, inode, at, taken)
        if (before.attempt, before.inode) not in (("", ""), (self._cursor.attempt, self._cursor.inode)):
            yield from self._lines.rest()
            self._notice(f"{self._ref.run_id}: attempt {self._cursor.attempt} begins a new log")
        elif self._cursor.at < before.at:
            # Zeros replace what was truncated while it was sent.
            yield from filter(None, (line.rstrip(b"\0") for line in self._lines.rest()))
            self._notice(f"{self._ref.run_id}: {_WAS_CUT}")
        elif self._cursor != before:
            self._lines.forget()

    def _wait(self, reason: str) -> None:
        if not self._pause_s:
            self._notice(f"{reason}; trying again, the log goes on where it stopped")
        self._pause_s = min(_LONGEST_PAUSE_S, 2 * self._pause_s or _FIRST_PAUSE_S)
        time.sleep(self._pause_s)


class _Pieces:
    """Read lines and counted bytes from chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = b""

    def line(self) -> bytes:
        """Read the next line without its end; empty if the stream ends before. Raises ValueError for one too long."""
        while b"\n" not in self._buffer:
            chunk = next(self._chunks, b"")
            if not chunk:
                return b""
            self._buffer += chunk
            if len(self._buffer) > _LONGEST_HEADER and b"\n" not in self._buffer[:_LONGEST_HEADER]:
                raise ValueError("a frame has an endless first line")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def some(self, most: int) -> bytes:
        """Read at least one byte and at most `most`; empty at the end of the stream."""
        piece = self._buffer or next(self._chunks, b"")
        self._buffer = piece[most:]
        return piece[:most]


# ---- lines out of a stream -------------------------------------------------------------------------------------------


class Lines:
    """Join pieces to lines, in bounded memory. A line longer than LONGEST is cut, with a note at its end."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self._length = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the lines that this piece completes, without line ends."""
        first, *others = piece.split(b"\n")
        self._add(first)
        if others:
            yield self._finish()
            for line in others[:-1]:
                self._add(line)
                yield self._finish()
            self._add(others[-1])

    def rest(self) -> Iterator[bytes]:
        """Yield the last line, if it has begun and has no end."""
        if self._length:
            yield self._finish()

    def forget(self) -> None:
        """Drop the line that has begun, because it will not be continued."""
        self._begun, self._length = [], 0

    def _add(self, part: bytes) -> None:
        # A line of many pieces is joined once, at its end: joining at every piece takes quadratic time.
        room = LONGEST - self._length
        if room > 0 and part:
            self._begun.append(part[:room])
        self._length += len(part)

    def _finish(self) -> bytes:
        line, length = b"".join(self._begun), self._length
        self.forget()
        return line if length <= LONGEST else line + b" [rlx: %d more bytes of this line]" % (length - LONGEST)


def split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a stream, also a last line without an end."""
    lines = Lines()
    for chunk in chunks:
        yield from lines.feed(chunk)
    yield from lines.rest()
