"""Write a value of the compared metric: shares of items in points, everything else as it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unit:
    """`in_points`: values are shares, so that 0.0242 of difference is 2.4 points."""

    in_points: bool

    def signed(self, difference: float) -> str:
        """`+2.4`, without the unit; `+0.03` for less than a tenth, so that on which side of 0 it lies is seen."""
        if not self.in_points:
            return f"{difference:+.4g}"
        tenths = f"{100 * difference:+.1f}"
        return tenths if float(tenths) or not difference else f"{100 * difference:+.1g}"

    def change(self, difference: float) -> str:
        """`+2.4 points`."""
        return self._named(self.signed(difference))

    def size(self, difference: float) -> str:
        """`2.4 points`: how far apart, whichever is higher."""
        return self._named(self.signed(abs(difference))[1:])

    def bare(self, difference: float) -> str:
        """`2.4`."""
        return self.signed(abs(difference))[1:]

    def _named(self, number: str) -> str:
        return f"{number} points" if self.in_points else number
