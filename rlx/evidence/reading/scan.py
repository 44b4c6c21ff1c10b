"""Finds the few lines that matter in a log of any size, in constant memory.

A training log is mostly other people's chatter. Looking for a handful of byte strings in whole chunks is twice as fast
as one regex over them and four times as fast as splitting lines first, so only lines that hold a needle are ever cut
out. Each needle is one pass over the log, the faster the longer it is: few and long needles make a fast parser.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, TypeAlias

from rlx.evidence.reading.byte_search import finder

CHUNK_BYTES = 1 << 19
Match: TypeAlias = "tuple[bytes, tuple[bytes, ...]]"
"""A line without its end-of-line characters, and the needles that it holds."""
# No line that carries evidence comes near this; longer ones are handed out in pieces.
MAX_LINE_BYTES = 4 << 20


class LineScanner:
    r"""Cuts lines that contain a needle out of a byte stream that arrives in pieces of any size.

    Both \n and \r end a line: progress bars redraw themselves with \r and metric lines follow on the same \n-line.
    """

    def __init__(self, needles: tuple[bytes, ...]) -> None:
        self._needles = needles
        self._rest = b""

    @property
    def pending(self) -> int:
        """The number of bytes at the end of the stream that wait for the end of their line."""
        return len(self._rest)

    def feed(self, data: bytes) -> Iterator[Match]:
        """The matching lines completed by `data`, in order."""
        # One kind of line end, or a search for the other one would run through a whole chunk for each line.
        buffer = self._rest + data.replace(b"\r", b"\n")
        end = _complete_bytes(buffer)
        self._rest = buffer[end:]
        yield from _matching_lines(buffer, end, self._needles)

    def finish(self) -> Iterator[Match]:
        """The last line, which has no end-of-line. Only for a stream that will not grow: it may be half a line."""
        rest, self._rest = self._rest, b""
        yield from _matching_lines(rest, len(rest), self._needles)


def matching_lines(stream: BinaryIO, needles: tuple[bytes, ...], *, last_line_complete: bool) -> Iterator[bytes]:
    """The lines of a file that contain a needle, without their end-of-line characters."""
    scanner = LineScanner(needles)
    while chunk := stream.read(CHUNK_BYTES):
        yield from (line for line, _ in scanner.feed(chunk))
    if last_line_complete:
        yield from (line for line, _ in scanner.finish())


def _complete_bytes(buffer: bytes) -> int:
    """Count how much of the buffer is whole lines; of an endless line, everything up to its last blank."""
    end = buffer.rfind(b"\n") + 1
    if len(buffer) - end <= MAX_LINE_BYTES:
        return end
    # At a blank, so that no number and no name is torn into something that reads like another one.
    blank = buffer.rfind(b" ", end)
    return blank if blank > end else len(buffer)


def _matching_lines(text: bytes, length: int, needles: tuple[bytes, ...]) -> Iterator[Match]:
    ends: dict[int, int] = {}
    held: dict[int, tuple[bytes, ...]] = {}
    find = finder(text)
    for needle in needles:
        at = find(needle, 0, length)
        while at >= 0:
            start, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at, length)
            ends[start] = end = length if end < 0 else end
            held[start] = (*held.get(start, ()), needle)
            at = find(needle, end, length)
    for start in sorted(ends):
        yield text[start : ends[start]], held[start]
