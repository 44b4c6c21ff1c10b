"""Draw curves in a panel: bands below all lines, lines below all marks, and the grid that their values are read by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rlx.report.axes import round_ticks, tick_text
from rlx.report.axis_reach import above, reached_values
from rlx.report.legend import Style
from rlx.report.panel import Panel, tick
from rlx.report.picture import Curve, Picture
from rlx.report.shapes import XY, Area, Line, Mark, Shape

# Radius of the marks, and how many a curve has at most.
_LARGE, _SMALL = (4.0, 150), (3.0, 6)


def value_ticks(drawn: Picture, about: int = 5) -> list[float]:
    """Choose the ticks of the values; the first and the last are the ends of their axis."""
    values = reached_values(drawn, bands=True)
    return round_ticks(min(values), max(values), about)


def value_grid(drawn: Picture, panel: Panel, about: int = 5) -> Iterator[Shape]:
    """Draw a line with its value at each tick."""
    factor, unit = (100, " %") if drawn.is_share else (1, "")
    ticks = value_ticks(drawn, about)
    for value in ticks:
        yield from tick(panel, panel.y(value), tick_text(factor * value, factor * (ticks[1] - ticks[0])) + unit)


def curve_shapes(drawn: Picture, styles: Sequence[Style], panel: Panel, small: bool = False) -> Iterator[Shape]:
    """Bands below all lines, lines below all marks; what is struck below what counts."""
    order = sorted(zip(drawn.curves, styles, strict=True), key=lambda each: not each[0].struck)
    for curve, style in order:
        yield from _band(curve, style, panel)
    for curve, style in order:
        for seed in curve.seeds:
            yield Line(_path(panel, seed.items()), style.ink, 1, style.dash, opacity=0.5)
        yield Line(_path(panel, ((p.step, p.value) for p in curve.points)), style.ink, 2, style.dash)
    for curve, style in order:
        yield from _marks(curve, style, panel, *(_SMALL if small else _LARGE))


def _path(panel: Panel, values: Iterable[tuple[int, float]]) -> tuple[XY, ...]:
    """A line enters the panel where it crosses its foot."""
    return tuple((panel.x(step), panel.y(value)) for step, value in above(values, panel.y.low))


def _marks(curve: Curve, style: Style, panel: Panel, radius: float, most: int) -> Iterator[Shape]:
    """Mark each point, or so many that they can be told apart, the last one always."""
    every = max(1, -(-len(curve.points) // most))
    for point in curve.points[::-every][::-1]:
        if point.value >= panel.y.low:
            yield Mark((panel.x(point.step), panel.y(point.value)), *style.mark, radius)


def _band(curve: Curve, style: Style, panel: Panel) -> Iterator[Shape]:
    """Draw the band; none for a struck arm: an interval around what is no result says nothing."""
    bounds = [(p.step, p.low, p.high) for p in curve.points if p.low is not None and p.high is not None]
    if len(bounds) > 1 and not curve.struck:
        upper = _path(panel, ((step, high) for step, _, high in bounds))
        lower = _path(panel, ((step, low) for step, low, _ in bounds))
        yield Area((*upper, *reversed(lower)), style.ink, 0.14)
