"""Map values to positions: linear and logarithmic scales with ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps low … high to start … end in pixels; a single value lies in the middle."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.start + share * (self.end - self.start)


def round_ticks(low: float, high: float, about: int) -> list[float]:
    """Choose up to about `about` + 1 multiples of 1, 2 or 5 times a power of ten, from below `low` to above `high`."""
    if not high > low:
        middle, half = low, abs(low) / 10 or 1.0
        low, high = middle - half, middle + half
    rough = (high - low) / max(1, about)
    power = 10.0 ** math.floor(math.log10(rough))
    width = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.floor(low / width + 1e-9), math.ceil(high / width - 1e-9)
    return [index * width for index in range(first, last + 1)]


def decades(values: Sequence[float]) -> list[int]:
    """The powers of ten that enclose the positive values; at least two, so that there is a scale."""
    low = math.floor(math.log10(min(values)) + 1e-9)
    high = math.ceil(math.log10(max(values)) - 1e-9)
    return list(range(low, max(high, low + 1) + 1))


def whole_ticks(low: int, high: int, about: int) -> list[int]:
    """Ticks of a step axis: whole numbers within low … high."""
    ticks = (round(tick) for tick in round_ticks(low, high, about) if abs(tick - round(tick)) < 1e-6)
    return [tick for tick in ticks if low <= tick <= high] or [low]


def tick_text(value: float, step: float) -> str:
    """Write as many decimals as tell neighbouring ticks apart."""
    if abs(value) >= 1e6 or (0 < step < 1e-4):
        return f"{value:.3g}"
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:.{digits}f}"


def decade_text(exponent: int) -> str:
    return f"{10.0**exponent:g}"
