"""The picture of a comparison as lines of text. Which colour an ink has is for whoever prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log10

from rlx.report.arm_noise import NoiseTrack
from rlx.report.axes import Scale, decade_text, decades, round_ticks, tick_text, whole_ticks
from rlx.report.axis_reach import above, foot_note, reached_values
from rlx.report.canvas import Canvas, Piece
from rlx.report.legend import Style, style_of
from rlx.report.picture import Picture
from rlx.report.safe_text import cut

_LABELS = 9
_ROWS, _NOISE_ROWS = 14, 6
_FILLED, _HOLLOW = "●■▲◆▼★", "○□△◇▽☆"
NARROWEST = 40


def text_plot(drawn: Picture, width: int) -> list[list[Piece]]:
    """Lines as pieces of (text, ink), at most `width` cells wide, but no narrower than can be read."""
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
            (cut(curve.label, width - 8 - len(curve.word)), "muted" if curve.struck else "text"),
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
    order = sorted(zip(drawn.curves, styles, strict=True), key=lambda each: not each[0].struck)
    for curve, style in order:
        line = [(x(step), y(value)) for step, value in above(((p.step, p.value) for p in curve.points), y.low)]
        canvas.line(line, style.ink, every=3 if curve.struck else 1)
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
    """Sigma in decades, 0 in the lowest row."""
    sigmas = [sigma for track in drawn.noise if track for sigma in track.sigmas if sigma > 0]
    exponents = decades(sigmas or [0.01])
    y = Scale(exponents[0], exponents[-1], 4 * _NOISE_ROWS - 7, 1)
    canvas = Canvas(columns, _NOISE_ROWS)
    tracks = [(track, style) for track, style in zip(drawn.noise, styles, strict=True) if track]
    for track, style in sorted(tracks, key=lambda each: each[1].ink != "struck"):
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
    """The rows of a canvas, values at the left where a dot row has one."""
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
