"""Choose how an arm is drawn, and draw the legend that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlx.report.picture import Curve
from rlx.report.shapes import DASHES, SERIES, Label, Line, Mark, Shape, fitted, text_width

_SAMPLE, _SPACE, _ROW = 30.0, 22.0, 20.0


@dataclass(frozen=True, slots=True)
class Style:
    """Ink, sign and dashes of an arm. Filled marks are for valid runs alone."""

    ink: str
    sign: int
    dash: str
    filled: bool

    @property
    def mark(self) -> tuple[int, str, bool]:
        return self.sign, self.ink, self.filled


def style_of(index: int, curve: Curve) -> Style:
    """Choose the style. Struck: grey, dashed, hollow. The sign stays, so that struck arms can be told apart."""
    sign = (index + index // SERIES) % SERIES
    if curve.struck:
        return Style("struck", sign, DASHES, filled=False)
    return Style(f"s{index % SERIES}", sign, "", filled=not curve.word)


def legend(curves: Sequence[Curve], left: float, y: float, right: float) -> tuple[list[Shape], float]:
    """A sample, the name and the word of each arm, in as many rows as it takes; and the y of the last row."""
    shapes: list[Shape] = []
    x = left
    for index, curve in enumerate(curves):
        style = style_of(index, curve)
        # The word says more than the end of a long name.
        word = f" ({curve.word})" if curve.word else ""
        name = fitted(curve.label, right - left - _SAMPLE - text_width(word, 12) - 6, 12) + word
        width = _SAMPLE + text_width(name, 12)
        if x > left and x + width > right:
            x, y = left, y + _ROW
        shapes += [
            Line(((x, y - 4), (x + 24, y - 4)), style.ink, 2, style.dash),
            Mark((x + 12, y - 4), *style.mark),
            Label((x + _SAMPLE, y), name, "muted" if curve.struck else "text"),
        ]
        x += width + _SPACE
    return shapes, y
