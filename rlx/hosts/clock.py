"""Compare the clock of a host with this machine's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_MOST_OFF_S = 60.0
_GRAIN_S = 1.0
"""Hosts report whole seconds."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The lead of the host's clock over this one's, in seconds: somewhere from `least` to `most`."""

    least: float
    most: float

    @property
    def off_s(self) -> float:
        """The seconds that it is off for certain, 0 if both may agree; negative where the host is behind."""
        return self.least if self.least > 0 else min(self.most, 0.0)

    @property
    def skew(self) -> str:
        """`32399 s behind this machine's`; empty for a clock that is off by a minute at most."""
        if abs(self.off_s) <= _MOST_OFF_S:
            return ""
        return f"{abs(self.off_s):.0f} s {'ahead of' if self.off_s > 0 else 'behind'} this machine's"


SET_CLOCK = "timedatectl set-ntp true, on the host"


def compare_clocks(times: Sequence[float], before: float, after: float) -> Clock | None:
    """Compare the host's clock with both ends of the round trip: its first reading came after `before`."""
    if not times:
        return None
    return Clock(least=times[-1] - after, most=times[0] + _GRAIN_S - before)
