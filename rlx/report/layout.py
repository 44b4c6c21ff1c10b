"""From a picture to a drawing: two panels on one step axis, validation above, noise beneath."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlx.report.axes import Scale, round_ticks, tick_text
from rlx.report.columns import columns
from rlx.report.legend import Style, legend, style_of
from rlx.report.noise_panel import noise_panel, noise_shapes
from rlx.report.panel import Panel, step_axis, tick
from rlx.report.picture import Curve, Picture
from rlx.report.shapes import Area, Label, Line, Mark, Scene, Shape, fitted

WIDE, NARROW = 760.0, 350.0
_LEFT, _RIGHT = 54.0, 14.0
_GAP, _FOOT = 66.0, 44.0
_MOST_MARKS = 150


def scene(drawn: Picture, width: float = WIDE) -> Scene:
    """The drawing at `width` pixels; its height follows from what there is to show."""
    shapes, top = _head(drawn, width)
    styles = [style_of(index, curve) for index, curve in enumerate(drawn.curves)]
    x = Scale(0, max(1, _last_step(drawn)), _LEFT, width - _RIGHT)
    curves = _curve_panel(drawn, x, top, height=min(300.0, 0.62 * width))
    shapes += [*_grid(curves, drawn.is_share), *_curves(drawn, styles, curves)]
    noise = noise_panel(drawn, x, curves.bottom + _GAP) if drawn.has_noise else None
    shapes += noise_shapes(drawn, styles, noise) if noise else []
    foot = (noise or curves).bottom
    shapes += step_axis(x, foot, about=8 if width > NARROW else 4)
    return Scene(
        width=width,
        height=foot + _FOOT,
        shapes=tuple(shapes),
        columns=tuple(columns(drawn, curves, noise)),
        title=f"{drawn.metric} by training step{_interim(drawn)}",
        description=_description(drawn),
    )


def _interim(drawn: Picture) -> str:
    return " · interim" if drawn.interim else ""


def _head(drawn: Picture, width: float) -> tuple[list[Shape], float]:
    """Title, what the bands are, and the legend; and where they end."""
    title = fitted(drawn.metric, width - 30 - 80 * drawn.interim, 14)
    shapes: list[Shape] = [Label((10, 20), f"{title}{_interim(drawn)}", size=14, bold=True)]
    y = 38.0
    if drawn.intervals:
        shapes.append(Label((10, y), fitted(drawn.intervals, width - 20, 11), "muted", size=11))
        y += 22
    marks, end = legend(drawn.curves, 10, y, width - 10)
    return [*shapes, *marks], end + 20


def _last_step(drawn: Picture) -> int:
    steps = [point.step for curve in drawn.curves for point in curve.points]
    for track in drawn.noise:
        if track:
            steps += [len(track.planned), *(step for step, _ in track.applied + track.in_validation)]
    return max(steps, default=1)


def _curve_panel(drawn: Picture, x: Scale, top: float, height: float) -> Panel:
    points = [point for curve in drawn.curves for point in curve.points]
    bounds = [bound for curve in drawn.curves if not curve.struck for p in curve.points for bound in (p.low, p.high)]
    values = [point.value for point in points] + [bound for bound in bounds if bound is not None]
    values += [value for curve in drawn.curves for seed in curve.seeds for value in seed.values()]
    ticks = round_ticks(min(values, default=0.0), max(values, default=1.0), about=5)
    return Panel(top, top + height, x, Scale(ticks[0], ticks[-1], top + height, top))


def _grid(panel: Panel, is_share: bool) -> Iterator[Shape]:
    factor, unit = (100, " %") if is_share else (1, "")
    ticks = round_ticks(panel.y.low, panel.y.high, about=5)
    for value in ticks:
        yield from tick(panel, panel.y(value), tick_text(factor * value, factor * (ticks[1] - ticks[0])) + unit)


def _curves(drawn: Picture, styles: Sequence[Style], panel: Panel) -> Iterator[Shape]:
    """Bands below all lines, lines below all marks; what is struck below what counts."""
    order = sorted(zip(drawn.curves, styles, strict=True), key=lambda each: not each[0].struck)
    for curve, style in order:
        yield from _band(curve, style, panel)
    for curve, style in order:
        for seed in curve.seeds:
            line = tuple((panel.x(step), panel.y(value)) for step, value in seed.items())
            yield Line(line, style.ink, 1, style.dash, opacity=0.5)
        yield Line(tuple((panel.x(p.step), panel.y(p.value)) for p in curve.points), style.ink, 2, style.dash)
    for curve, style in order:
        if len(curve.points) <= _MOST_MARKS:
            yield from (Mark((panel.x(p.step), panel.y(p.value)), *style.mark) for p in curve.points)


def _band(curve: Curve, style: Style, panel: Panel) -> Iterator[Shape]:
    """None for a struck arm: an interval around what is no result says nothing."""
    bounds = [(panel.x(p.step), p.low, p.high) for p in curve.points if p.low is not None and p.high is not None]
    if len(bounds) > 1 and not curve.struck:
        above, below = [(x, panel.y(high)) for x, _, high in bounds], [(x, panel.y(low)) for x, low, _ in bounds]
        yield Area((*above, *reversed(below)), style.ink, 0.14)


def _description(drawn: Picture) -> str:
    ends = [
        f"{curve.name} ends at {drawn.value_text(curve.points[-1].value)} at step {curve.points[-1].step}"
        for curve in drawn.curves
        if curve.points
    ]
    noise = "; the planned and applied noise of each step is drawn beneath" if drawn.has_noise else ""
    return f"Line chart: {'; '.join(ends) or 'no values'}{noise}."
