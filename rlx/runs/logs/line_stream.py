"""Lines out of a stream of bytes, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

LONGEST = 256 * 1024
"""What is kept of a line. Some logs hold a line of hundreds of megabytes."""


class Lines:
    """Puts lines together from pieces. A line that is longer than LONGEST is cut, and says so at its end."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self._length = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The lines that this piece completes, without line ends."""
        first, *others = piece.split(b"\n")
        self._add(first)
        if others:
            yield self._finish()
            for line in others[:-1]:
                self._add(line)
                yield self._finish()
            self._add(others[-1])

    def rest(self) -> Iterator[bytes]:
        """The last line, if it has begun and nothing ended it."""
        if self._length:
            yield self._finish()

    def forget(self) -> None:
        """Drop the line that has begun, because it will not go on."""
        self._begun, self._length = [], 0

    def _add(self, part: bytes) -> None:
        # A line of many pieces is put together once, at its end: doing so at every piece takes time by its square.
        room = LONGEST - self._length
        if room > 0 and part:
            self._begun.append(part[:room])
        self._length += len(part)

    def _finish(self) -> bytes:
        line, length = b"".join(self._begun), self._length
        self.forget()
        return line if length <= LONGEST else line + b" [rlx: %d more bytes of this line]" % (length - LONGEST)


def split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a stream; a last line without an end counts too."""
    lines = Lines()
    for chunk in chunks:
        yield from lines.feed(chunk)
    yield from lines.rest()
