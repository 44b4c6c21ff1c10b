"""Draw the picture of a comparison as lines of text. The printer decides the colour of each ink.

Lines are in braille dots, two by four of them in each cell, signs above them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import log10

from rlx.report.drawing import Style, style_of
from rlx.report.picture import NoiseTrack, Picture, above, foot_note, reached_values
from rlx.report.safe_text import cut
from rlx.report.shapes import Scale, decade_text, decades, round_ticks, tick_text, whole_ticks

_LABELS = 9
_ROWS, _NOISE_ROWS = 14, 6
_FILLED, _HOLLOW = "●■▲◆▼★", "○□△◇▽☆"
NARROWEST = 40
# Dot numbers of Unicode's braille patterns by row and column within a cell.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BLANK = 0x2800
Piece = tuple[str, str]


def text_plot(drawn: Picture, width: int) -> list[list[Piece]]:
    """Return lines as pieces of (text, ink), at most `width` cells wide, but not narrower than readable."""
    width = max(NARROWEST, width)
    columns = width - _LABELS - 2
    styles = [style_of(index, curve) for index, curve in enumerate(drawn.curves)]
    x = Scale(0, max(1, drawn.last_step), 0, 2 * columns - 1)
    interim = " · interim" if drawn.interim else ""
    lines = [[(cut(drawn.metric, width - len(interim)) + interim, "text")]]
    lines += _legend(drawn, styles, width)
    lines += _curves(drawn, styles, x, columns)
    if drawn.has_noise:
        lines += [[], [("noise sigma", "text"), (" line: plan, signs: applied", "muted")]]
        lines += _noise(drawn, styles, x, columns)
    return [*lines, *_step_axis(x, columns)]


def _legend(drawn: Picture, styles: Sequence[Style], width: int) -> list[list[Piece]]:
    return [
        [
            (f"  {_sign(style)} ", style.ink),
            (cut(curve.label, width - 8 - len(curve.word)), "muted" if curve.excluded else "text"),
            (f" ({curve.word})" if curve.word else "", "muted"),
        ]
        for curve, style in zip(drawn.curves, styles, strict=True)
    ]


def _sign(style: Style) -> str:
    return (_FILLED if style.filled else _HOLLOW)[style.sign]


def _curves(drawn: Picture, styles: Sequence[Style], x: Scale, columns: int) -> Iterator[list[Piece]]:
    values = reached_values(drawn, bands=False)
    ticks = round_ticks(min(values), max(values), about=4)
    y = Scale(ticks[0], ticks[-1], 4 * _ROWS - 3, 1)
    canvas = Canvas(columns, _ROWS)
    order = sorted(zip(drawn.curves, styles, strict=True), key=lambda each: not each[0].excluded)
    for curve, style in order:
        line = [(x(step), y(value)) for step, value in above(((p.step, p.value) for p in curve.points), y.low)]
        canvas.line(line, style.ink, every=3 if curve.excluded else 1)
    for curve, style in order:
        for point in curve.points:
            if point.value >= y.low:
                canvas.sign(x(point.step), y(point.value), _sign(style), style.ink)
    factor, unit = (100, " %") if drawn.is_share else (1, "")
    step = factor * (ticks[1] - ticks[0])
    yield from _labelled(canvas, {y(tick): tick_text(factor * tick, step) + unit for tick in ticks})
    if note := foot_note(drawn, y.low):
        yield [(f"  {cut(note, columns)}", "muted")]


def _noise(drawn: Picture, styles: Sequence[Style], x: Scale, columns: int) -> Iterator[list[Piece]]:
    """Draw sigma in decades, 0 in the lowest row."""
    sigmas = [sigma for track in drawn.noise if track for sigma in track.sigmas if sigma > 0]
    exponents = decades(sigmas or [0.01])
    y = Scale(exponents[0], exponents[-1], 4 * _NOISE_ROWS - 7, 1)
    canvas = Canvas(columns, _NOISE_ROWS)
    tracks = [(track, style) for track, style in zip(drawn.noise, styles, strict=True) if track]
    for track, style in sorted(tracks, key=lambda each: each[1].ink != "excluded"):
        _track(canvas, track, style, x, y)
    labels = {y(exponent): decade_text(exponent) for exponent in exponents[:: max(1, len(exponents) - 1)]}
    yield from _labelled(canvas, labels | {float(4 * _NOISE_ROWS - 2): "0"})


def _track(canvas: Canvas, track: NoiseTrack, style: Style, x: Scale, y: Scale) -> None:
    def height(sigma: float) -> float:
        return y(log10(sigma)) if sigma > 0 else 4 * canvas.rows - 2

    canvas.line([(x(step), height(sigma)) for step, sigma in enumerate(track.planned, start=1)], style.ink)
    for step, sigma in track.applied:
        canvas.sign(x(step), height(sigma), _sign(style), style.ink)


def _labelled(canvas: Canvas, labels: Mapping[float, str]) -> Iterator[list[Piece]]:
    """Yield the rows of a canvas, with values at the left where a dot row has one."""
    by_row = {round(y) // 4: text for y, text in labels.items()}
    for row in range(canvas.rows):
        edge = "┤" if row in by_row else "│"
        yield [(f"{by_row.get(row, ''):>{_LABELS}} {edge}", "muted"), *canvas.row(row)]


def _step_axis(x: Scale, columns: int) -> Iterator[list[Piece]]:
    yield [(f"{'':>{_LABELS}} └{'─' * columns}", "muted")]
    line = [" "] * (columns + 8)
    for tick in whole_ticks(round(x.low), round(x.high), about=6):
        start = max(0, round(x(tick)) // 2 - len(str(tick)) // 2)
        if all(cell == " " for cell in line[max(0, start - 1) : start + len(str(tick)) + 1]):
            line[start : start + len(str(tick))] = str(tick)
    yield [(f"{'step':>{_LABELS}}  {''.join(line).rstrip()}", "muted")]


class Canvas:
    """`columns` by `rows` cells; dots are counted from the top left. The last one drawn in a cell sets its ink."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._dots = [[0] * columns for _ in range(rows)]
        self._inks = [[""] * columns for _ in range(rows)]
        self._signs: dict[tuple[int, int], Piece] = {}

    def line(self, points: Sequence[tuple[float, float]], ink: str, every: int = 1) -> None:
        """Draw a line through points in dots; with `every` above 1 only each such dot, so that it looks dashed."""
        drawn = 0
        for (x, y), (to_x, to_y) in pairwise(points):
            length = max(1, round(max(abs(to_x - x), abs(to_y - y))))
            for index in range(length + 1):
                if drawn % (2 * every) < every or every == 1:
                    share = index / length
                    self._dot(round(x + share * (to_x - x)), round(y + share * (to_y - y)), ink)
                drawn += 1

    def sign(self, x: float, y: float, character: str, ink: str) -> None:
        """Draw a character in the cell of a dot, above all lines."""
        column, row = min(self.columns - 1, max(0, round(x) // 2)), min(self.rows - 1, max(0, round(y) // 4))
        self._signs[row, column] = (character, ink)

    def row(self, row: int) -> list[Piece]:
        """Return the cells of a row as pieces of text of one ink each."""
        pieces: list[Piece] = []
        for column in range(self.columns):
            text, ink = self._cell(row, column)
            if pieces and pieces[-1][1] == ink:
                pieces[-1] = (pieces[-1][0] + text, ink)
            else:
                pieces.append((text, ink))
        return pieces

    def _cell(self, row: int, column: int) -> Piece:
        if (row, column) in self._signs:
            return self._signs[row, column]
        dots = self._dots[row][column]
        return (chr(_BLANK + dots), self._inks[row][column]) if dots else (" ", "")

    def _dot(self, x: int, y: int, ink: str) -> None:
        column, row = x // 2, y // 4
        if 0 <= column < self.columns and 0 <= row < self.rows:
            self._dots[row][column] |= _DOTS[y % 4][x % 2]
            self._inks[row][column] = ink
