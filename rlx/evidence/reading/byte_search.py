"""Searching bytes by the C library, which skips faster than CPython's own search: about twice over a log's needles."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

Find: TypeAlias = Callable[[bytes, int, int], int]

_WORTH_BYTES = 64 << 10


def finder(text: bytes) -> Find:
    """`text.find(needle, start, end)`, for positions within the text."""
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
