"""Find the few relevant lines in a log of any size, in constant memory.

Most lines of a training log are of other programs. Searching for a few byte strings in whole chunks is twice as fast as
one regular expression and four times as fast as splitting lines first, so only lines that contain a needle are cut out.
Each needle is one pass over the log, faster the longer it is: few and long needles make a fast parser. The C library's
search skips faster than CPython's: it takes half the time on the needles of a log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, BinaryIO, TypeAlias

CHUNK_BYTES = 1 << 19
Match: TypeAlias = "tuple[bytes, tuple[bytes, ...]]"
"""A line without its end-of-line characters, and the needles that it holds."""
# No line that carries evidence comes near this; longer ones are handed out in pieces.
MAX_LINE_BYTES = 4 << 20
Find: TypeAlias = Callable[[bytes, int, int], int]
_WORTH_BYTES = 64 << 10


class LineScanner:
    r"""Cuts lines that contain a needle out of a byte stream that arrives in pieces of any size.

    Both \n and \r end a line: progress bars redraw themselves with \r and metric lines follow on the same \n-line.
    """

    def __init__(self, needles: tuple[bytes, ...]) -> None:
        self._needles = needles
        self._rest = b""

    @property
    def pending(self) -> int:
        """The number of bytes at the end of the stream whose line is not complete."""
        return len(self._rest)

    def feed(self, data: bytes) -> Iterator[Match]:
        """Yield the matching lines completed by `data`, in order."""
        # One kind of line end, or a search for the other one would run through a whole chunk for each line.
        buffer = self._rest + data.replace(b"\r", b"\n")
        end = _complete_bytes(buffer)
        self._rest = buffer[end:]
        yield from _matching_lines(buffer, end, self._needles)

    def finish(self) -> Iterator[Match]:
        """Yield the last line, which has no end-of-line. Only for a stream that will not grow: it may be incomplete."""
        rest, self._rest = self._rest, b""
        yield from _matching_lines(rest, len(rest), self._needles)


def matching_lines(stream: BinaryIO, needles: tuple[bytes, ...], *, last_line_complete: bool) -> Iterator[bytes]:
    """Yield the lines of a file that contain a needle, without their end-of-line characters."""
    scanner = LineScanner(needles)
    while chunk := stream.read(CHUNK_BYTES):
        yield from (line for line, _ in scanner.feed(chunk))
    if last_line_complete:
        yield from (line for line, _ in scanner.finish())


def _complete_bytes(buffer: bytes) -> int:
    """Count the bytes of complete lines in the buffer; of an endless line, everything up to its last blank."""
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


def finder(text: bytes) -> Find:
    """Return `text.find(needle, start, end)`, for positions within the text."""
    memmem = _memmem() if len(text) >= _WORTH_BYTES else None
    if memmem is None:
        return text.find
    base = _address(text)

    def find(needle: bytes, start: int, end: int, _alive: bytes = text) -> int:
        found: int | None = memmem(base + start, end - start, needle, len(needle))
        return -1 if found is None else found - base

    return find


@cache
def _memmem() -> Any:
    """Load the C library's search; None where it has no such function, or Python cannot call it."""
    try:
        import ctypes

        function = ctypes.CDLL(None).memmem
    except (ImportError, OSError, TypeError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    return function


def _address(text: bytes) -> int:
    import ctypes

    return ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value or 0
