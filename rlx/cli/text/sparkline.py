"""Draw a series of values in one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rlx.cli.frame.streams import writes_utf8

_BARS, _PLAIN_BARS = "▁▂▃▄▅▆▇█", "_.-=+*%#"
_GAP = " "


def sparkline(values: Sequence[float], width: int, low: float, high: float) -> str:
    """Draw at most `width` bars, from `low` to `high`, between which all values are; a bar is the mean of its values.

    Values that are not finite leave a gap. A stream that is not UTF-8 gets bars of ASCII.
    """
    bars = _BARS if writes_utf8() else _PLAIN_BARS
    scale = (len(bars) - 1) / (high - low) if high > low else 0.0
    means = _means(values, max(1, width))
    return "".join(_GAP if mean is None else bars[round((mean - low) * scale)] for mean in means)


def _means(values: Sequence[float], width: int) -> list[float | None]:
    parts = min(width, len(values))
    return [_mean(values[place * len(values) // parts : (place + 1) * len(values) // parts]) for place in range(parts)]


def _mean(values: Sequence[float]) -> float | None:
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else None
