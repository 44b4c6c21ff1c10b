"""A drawing as values in pixels, y downwards. SVG, PNG and HTML are three ways to write the same one."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass
from itertools import accumulate

XY = tuple[float, float]

# Okabe and Ito's palette (jfly.uni-koeln.de/color), darkened or lightened until each has 3:1 on its background, the
# least that WCAG 2.2 asks of a graphic; text has 4.5:1.
LIGHT = {"paper": "#ffffff", "text": "#1f2328", "muted": "#59636e", "grid": "#e3e7eb", "axis": "#87909a"} | {
    "struck": "#757d86",
    "s0": "#0067a3",
    "s1": "#c24e00",
    "s2": "#00805c",
    "s3": "#a3478a",
    "s4": "#8a6d00",
    "s5": "#4a4fc4",
}
DARK = {"paper": "#12161b", "text": "#e6e9ec", "muted": "#a5aeb8", "grid": "#2a313a", "axis": "#717b87"} | {
    "struck": "#8b949e",
    "s0": "#56b4e9",
    "s1": "#f28e3c",
    "s2": "#2bc49b",
    "s3": "#e39bc6",
    "s4": "#e0c341",
    "s5": "#a3a8ff",
}
SERIES = 6
DASHES = "5 4"


@dataclass(frozen=True, slots=True)
class Line:
    points: tuple[XY, ...]
    ink: str
    width: float = 1.0
    dash: str = ""
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Area:
    points: tuple[XY, ...]
    ink: str
    opacity: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A sign at a point. `sign` counts through the outlines below, so that no arm is known by its colour alone."""

    at: XY
    sign: int
    ink: str
    filled: bool = True
    radius: float = 4.0


@dataclass(frozen=True, slots=True)
class Label:
    """Text whose baseline starts, is centred or ends (`anchor`: start, middle, end) at a point.

    `struck` is what follows the text and is crossed out.
    """

    at: XY
    text: str
    ink: str = "text"
    size: float = 12.0
    anchor: str = "start"
    bold: bool = False
    struck: str = ""


Shape = Line | Area | Mark | Label


@dataclass(frozen=True, slots=True)
class Row:
    """One line of what a column says: of whom, and what; `struck` where that is no result."""

    name: str
    said: str
    ink: str
    sign: int
    filled: bool
    struck: bool

    @property
    def text(self) -> str:
        return f"{self.name}: {self.said}"


@dataclass(frozen=True, slots=True)
class Column:
    """A strip of the drawing that tells its values when pointed at or focused; `x` is where its rule stands."""

    x: float
    left: float
    right: float
    top: float
    bottom: float
    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Scene:
    """`title` and `description` are for those who do not see it."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    columns: tuple[Column, ...]
    title: str
    description: str


def outline(mark: Mark) -> tuple[XY, ...]:
    """The corners of a mark: circle, square, triangle, diamond, triangle on its head, star."""
    corners, turn, spread = _SIGNS[mark.sign % SERIES]
    x, y = mark.at
    angles = [math.tau * (index / corners + turn) for index in range(corners)]
    sizes = [mark.radius * spread * (0.45 if corners == 10 and index % 2 else 1) for index in range(corners)]
    return tuple(
        (x + size * math.sin(angle), y - size * math.cos(angle)) for angle, size in zip(angles, sizes, strict=True)
    )


# Corners, turn of the first one from straight up, and what makes it look as large as the others.
_SIGNS = ((24, 0, 1.0), (4, 1 / 8, 1.2), (3, 0, 1.35), (4, 0, 1.3), (3, 1 / 2, 1.35), (10, 0, 1.5))


def text_width(text: str, size: float) -> float:
    """Estimate how wide a text is: fonts differ, so the layout must bear some error."""
    return size * sum(1.0 if unicodedata.east_asian_width(char) in "WF" else 0.56 for char in text)


def fitted(text: str, width: float, size: float) -> str:
    """The text, cut with `…` to what fits into `width` pixels."""
    ends = list(accumulate(text_width(char, size) for char in text[: round(width)]))
    if len(ends) == len(text) and (not ends or ends[-1] <= width):
        return text
    return f"{text[: sum(end <= width - size for end in ends)]}…"
