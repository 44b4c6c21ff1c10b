"""Lay a picture out as a drawing: two panels on one step axis, validation above, noise beneath."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rlx.report.axes import Scale, round_ticks, tick_text
from rlx.report.axis_reach import above, foot_note, reached_values
from rlx.report.columns import columns
from rlx.report.legend import Style, legend, style_of
from rlx.report.noise_panel import noise_panel, noise_shapes
from rlx.report.panel import Panel, step_axis, tick
from rlx.report.picture import Curve, Picture
from rlx.report.shapes import XY, Area, Label, Line, Mark, Scene, Shape, fitted

WIDE, NARROW = 760.0, 350.0
_LEFT, _RIGHT = 54.0, 14.0
_GAP, _FOOT = 66.0, 44.0
_MOST_MARKS = 150


def scene(drawn: Picture, width: float = WIDE) -> Scene:
    """The drawing at `width` pixels; its height follows from what there is to show."""
    shapes, top = _head(drawn, width)
    styles = [style_of(index, curve) for index, curve in enumerate(drawn.curves)]
    x = Scale(0, max(1, drawn.last_step), _LEFT, width - _RIGHT)
    curves = _curve_panel(drawn, x, top, height=min(300.0, 0.62 * width))
    shapes += [*_grid(drawn, curves), *_curves(drawn, styles, curves)]
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
    runs = "thin lines: the runs" if any(curve.seeds for curve in drawn.curves) else ""
    notes = [note for note in (drawn.intervals, runs, foot_note(drawn, _y_ticks(drawn)[0])) if note]
    shapes += [
        Label((10, 38.0 + 16 * row), fitted(note, width - 20, 11), "muted", size=11) for row, note in enumerate(notes)
    ]
    marks, end = legend(drawn.curves, 10, 44.0 + 16 * len(notes), width - 10)
    return [*shapes, *marks], end + 20


def _curve_panel(drawn: Picture, x: Scale, top: float, height: float) -> Panel:
    ticks = _y_ticks(drawn)
    return Panel(top, top + height, x, Scale(ticks[0], ticks[-1], top + height, top))


def _y_ticks(drawn: Picture) -> list[float]:
    values = reached_values(drawn, bands=True)
    return round_ticks(min(values), max(values), about=5)


def _grid(drawn: Picture, panel: Panel) -> Iterator[Shape]:
    factor, unit = (100, " %") if drawn.is_share else (1, "")
    ticks = _y_ticks(drawn)
    for value in ticks:
        yield from tick(panel, panel.y(value), tick_text(factor * value, factor * (ticks[1] - ticks[0])) + unit)


def _curves(drawn: Picture, styles: Sequence[Style], panel: Panel) -> Iterator[Shape]:
    """Bands below all lines, lines below all marks; what is struck below what counts."""
    order = sorted(zip(drawn.curves, styles, strict=True), key=lambda each: not each[0].struck)
    for curve, style in order:
        yield from _band(curve, style, panel)
    for curve, style in order:
        for seed in curve.seeds:
            yield Line(_path(panel, seed.items()), style.ink, 1, style.dash, opacity=0.5)
        yield Line(_path(panel, ((p.step, p.value) for p in curve.points)), style.ink, 2, style.dash)
    for curve, style in order:
        if len(curve.points) <= _MOST_MARKS:
            yield from _marks(curve, style, panel)


def _path(panel: Panel, values: Iterable[tuple[int, float]]) -> tuple[XY, ...]:
    """A line enters the panel where it crosses its foot."""
    return tuple((panel.x(step), panel.y(value)) for step, value in above(values, panel.y.low))


def _marks(curve: Curve, style: Style, panel: Panel) -> Iterator[Shape]:
    for point in curve.points:
        if point.value >= panel.y.low:
            yield Mark((panel.x(point.step), panel.y(point.value)), *style.mark)


def _band(curve: Curve, style: Style, panel: Panel) -> Iterator[Shape]:
    """Draw the band; none for a struck arm: an interval around what is no result says nothing."""
    bounds = [(p.step, p.low, p.high) for p in curve.points if p.low is not None and p.high is not None]
    if len(bounds) > 1 and not curve.struck:
        upper = _path(panel, ((step, high) for step, _, high in bounds))
        lower = _path(panel, ((step, low) for step, low, _ in bounds))
        yield Area((*upper, *reversed(lower)), style.ink, 0.14)


def _description(drawn: Picture) -> str:
    ends = [
        f"{curve.name} ends at {drawn.value_text(curve.points[-1].value)} at step {curve.points[-1].step}"
        for curve in drawn.curves
        if curve.points
    ]
    noise = "; the planned and applied noise of each step is drawn beneath" if drawn.has_noise else ""
    return f"Line chart: {'; '.join(ends) or 'no values'}{noise}."
