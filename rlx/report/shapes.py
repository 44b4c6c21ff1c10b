"""A drawing as values in pixels, y downwards: shapes, scales, and panels. SVG, PNG and HTML write the same drawing."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

XY = tuple[float, float]

# Okabe and Ito's palette (jfly.uni-koeln.de/color), darkened or lightened until each has 3:1 on its background, the
# least that WCAG 2.2 asks of a graphic; text has 4.5:1.
LIGHT = {"paper": "#ffffff", "text": "#1f2328", "muted": "#59636e", "grid": "#e3e7eb", "axis": "#87909a"} | {
    "excluded": "#757d86",
    "s0": "#0067a3",
    "s1": "#c24e00",
    "s2": "#00805c",
    "s3": "#a3478a",
    "s4": "#8a6d00",
    "s5": "#4a4fc4",
}
DARK = {"paper": "#12161b", "text": "#e6e9ec", "muted": "#a5aeb8", "grid": "#2a313a", "axis": "#717b87"} | {
    "excluded": "#8b949e",
    "s0": "#56b4e9",
    "s1": "#f28e3c",
    "s2": "#2bc49b",
    "s3": "#e39bc6",
    "s4": "#e0c341",
    "s5": "#a3a8ff",
}
SERIES = 6
DASHES = "5 4"
# Corners, rotation of the first one from straight up, and the factor for an equal visual size.
_SIGNS = ((24, 0, 1.0), (4, 1 / 8, 1.2), (3, 0, 1.35), (4, 0, 1.3), (3, 1 / 2, 1.35), (10, 0, 1.5))


@dataclass(frozen=True, slots=True)
class Stroke:
    points: tuple[XY, ...]
    ink: str
    width: float = 1.0
    dash: str = ""
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class FilledArea:
    points: tuple[XY, ...]
    ink: str
    opacity: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A sign at a point. `sign` selects one of the outlines below, so that arms differ by more than their colour."""

    at: XY
    sign: int
    ink: str
    filled: bool = True
    radius: float = 4.0


@dataclass(frozen=True, slots=True)
class DrawnText:
    """Text whose baseline starts, is centred or ends (`anchor`: start, middle, end) at a point.

    `crossed_out` follows the text.
    """

    at: XY
    text: str
    ink: str = "text"
    size: float = 12.0
    anchor: str = "start"
    bold: bool = False
    crossed_out: str = ""


Shape = Stroke | FilledArea | Mark | DrawnText


@dataclass(frozen=True, slots=True)
class HoverLine:
    """One line of a hover box: the arm, and its value; `excluded`: it is not a result."""

    name: str
    said: str
    ink: str
    sign: int
    filled: bool
    excluded: bool

    @property
    def text(self) -> str:
        return f"{self.name}: {self.said}"


@dataclass(frozen=True, slots=True)
class HoverStrip:
    """A strip of the drawing that shows its values when pointed at or focused; `x` is the place of its rule."""

    x: float
    left: float
    right: float
    top: float
    bottom: float
    title: str
    rows: tuple[HoverLine, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """Shapes with their size. `title` and `description` are for screen readers."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    columns: tuple[HoverStrip, ...]
    title: str
    description: str


def outline(mark: Mark) -> tuple[XY, ...]:
    """Return the corners of a mark: circle, square, triangle, diamond, inverted triangle, star."""
    corners, turn, spread = _SIGNS[mark.sign % SERIES]
    x, y = mark.at
    angles = [math.tau * (index / corners + turn) for index in range(corners)]
    sizes = [mark.radius * spread * (0.45 if corners == 10 and index % 2 else 1) for index in range(corners)]
    return tuple(
        (x + size * math.sin(angle), y - size * math.cos(angle)) for angle, size in zip(angles, sizes, strict=True)
    )


def text_width(text: str, size: float) -> float:
    """Estimate the width of a text: fonts differ, so the layout must tolerate some error."""
    return size * sum(1.0 if unicodedata.east_asian_width(char) in "WF" else 0.56 for char in text)


def fitted(text: str, width: float, size: float) -> str:
    """Cut the text with `…` to `width` pixels."""
    ends = list(accumulate(text_width(char, size) for char in text[: round(width)]))
    if len(ends) == len(text) and (not ends or ends[-1] <= width):
        return text
    return f"{text[: sum(end <= width - size for end in ends)]}…"


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps low … high to start … end in pixels; a single value is in the middle."""

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
    """List the powers of ten that enclose the positive values; at least two, so that there is a scale."""
    low = math.floor(math.log10(min(values)) + 1e-9)
    high = math.ceil(math.log10(max(values)) - 1e-9)
    return list(range(low, max(high, low + 1) + 1))


def whole_ticks(low: int, high: int, about: int) -> list[int]:
    """Choose the ticks of a step axis: whole numbers within low … high."""
    ticks = (round(tick) for tick in round_ticks(low, high, about) if abs(tick - round(tick)) < 1e-6)
    return [tick for tick in ticks if low <= tick <= high] or [low]


def tick_text(value: float, step: float) -> str:
    """Write as many decimals as distinguish neighbouring ticks."""
    if abs(value) >= 1e6 or (0 < step < 1e-4):
        return f"{value:.3g}"
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:.{digits}f}"


def decade_text(exponent: int) -> str:
    return f"{10.0**exponent:g}"


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot with its scales."""

    top: float
    bottom: float
    x: Scale
    y: Scale


def tick(panel: Panel, y: float, text: str) -> Iterator[Shape]:
    """Draw a grid line with its value."""
    yield Stroke(((panel.x.start, y), (panel.x.end, y)), "grid")
    yield DrawnText((panel.x.start - 8, y + 4), text, "muted", size=11, anchor="end")


def step_axis(x: Scale, y: float, about: int, name: str = "training step") -> Iterator[Shape]:
    yield Stroke(((x.start, y), (x.end, y)), "axis")
    for step in whole_ticks(round(x.low), round(x.high), about):
        yield Stroke(((x(step), y), (x(step), y + 4)), "axis")
        yield DrawnText((x(step), y + 18), str(step), "muted", size=11, anchor="middle")
    if name:
        yield DrawnText(((x.start + x.end) / 2, y + 35), name, "muted", size=11, anchor="middle")
