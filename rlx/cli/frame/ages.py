"""Lengths of time as people type them."""

from __future__ import annotations

from rlx.errors import UsageError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_age(text: str) -> int:
    """Read the seconds of `30s`, `10m`, `2h`, `1d` or a bare number of seconds. Raises UsageError."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    if not (number.isascii() and number.isdigit()):
        raise UsageError(f"{text!r} is not a length of time", "write it as 30s, 10m, 2h or 1d")
    return int(number) * _UNITS[unit]
