"""Format times and durations for users."""

from __future__ import annotations

import time


def duration(seconds: float) -> str:
    """Format a duration: `45 s`, `12 min`, `3 h 05 min`."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


def age(seconds: float) -> str:
    """Format a duration with one unit, for a column: `45 s`, `12 min`, `3 h`, `7 d`."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"


def clock_time(epoch: float) -> str:
    """Format a time of this machine's time zone as `18:40`, with the date if it is not today's."""
    then, now = time.localtime(epoch), time.localtime()
    return time.strftime("%H:%M" if then[:3] == now[:3] else "%Y-%m-%d %H:%M", then)


def time_zone() -> str:
    """Name this machine's time zone, to be shown once beside times: `CET`."""
    return time.strftime("%Z")


def moment(epoch: float) -> str:
    """Format a time of this machine's time zone as `13:07:12`, with the date if it is not today's."""
    then, now = time.localtime(epoch), time.localtime()
    return time.strftime("%H:%M:%S" if then[:3] == now[:3] else "%Y-%m-%d %H:%M:%S", then)
