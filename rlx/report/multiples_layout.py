"""Lay small multiples out: each on its own for a page, which arranges them, or all of them as one drawing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlx.report.axes import Scale
from rlx.report.curve_shapes import curve_shapes, value_grid, value_ticks
from rlx.report.legend import legend, style_of
from rlx.report.multiples import EXPLORATORY, Multiples
from rlx.report.panel import Panel, step_axis
from rlx.report.picture import Curve, Picture
from rlx.report.picture_layout import WIDE
from rlx.report.shapes import Label, Scene, Shape, fitted

SMALL = 280.0
_LEFT, _RIGHT, _HEAD, _FOOT = 58.0, 12.0, 30.0, 26.0
_GAP, _TICKS = 14.0, 3


def panel_scene(drawn: Picture) -> Scene:
    """One metric, to stand beside others: without a legend, which is the same for all."""
    shapes = tuple(_panel(drawn, 0, 0, SMALL))
    return Scene(SMALL, _height(SMALL), shapes, (), f"{drawn.metric} by training step", _description(drawn))


def legend_scene(curves: Sequence[Curve], width: float) -> Scene:
    """Which arm is which. Read by those who see; each drawing tells the others."""
    marks, end = legend(curves, 4, 18, width - 4)
    return Scene(width, end + 10, tuple(marks), (), "legend", ", ".join(curve.name for curve in curves))


def multiples_scene(found: Multiples, width: float = WIDE) -> Scene:
    """All metrics in one drawing with its legend: one, two or three beside each other."""
    shapes, top = _head(found, width)
    across = 1 if len(found.pictures) == 1 else 2 if len(found.pictures) <= 4 else 3
    each = (width - _GAP * (across - 1)) / across
    for index, drawn in enumerate(found.pictures):
        down, right = divmod(index, across)
        shapes += _panel(drawn, right * (each + _GAP), top + down * (_height(each) + _GAP), each)
    rows = -(-len(found.pictures) // across)
    description = " ".join(_description(drawn) for drawn in found.pictures)
    height = top + rows * (_height(each) + _GAP)
    return Scene(width, height, tuple(shapes), (), "training curves by training step", description)


def _head(found: Multiples, width: float) -> tuple[list[Shape], float]:
    """The legend and the notes; and where the panels begin."""
    marks, end = legend(found.pictures[0].curves if found.pictures else (), 10, 20, width - 10)
    words = [EXPLORATORY, *found.notes]
    notes = [
        Label((10, end + 20 + 16 * row), fitted(note, width - 20, 11), "muted", size=11)
        for row, note in enumerate(words)
    ]
    return [*marks, *notes], end + 20 + 16 * len(words)


def _height(width: float) -> float:
    return _HEAD + _plot_height(width) + _FOOT


def _plot_height(width: float) -> float:
    return min(260.0, 0.45 * width)


def _panel(drawn: Picture, left: float, top: float, width: float) -> Iterator[Shape]:
    x = Scale(0, max(1, drawn.last_step), left + _LEFT, left + width - _RIGHT)
    head, foot = top + _HEAD, top + _HEAD + _plot_height(width)
    ticks = value_ticks(drawn, _TICKS)
    panel = Panel(head, foot, x, Scale(ticks[0], ticks[-1], foot, head))
    yield Label((left + 10, top + 16), fitted(drawn.metric, width - 20, 12), size=12, bold=True)
    yield from value_grid(drawn, panel, _TICKS)
    yield from curve_shapes(drawn, [style_of(*each) for each in enumerate(drawn.curves)], panel, small=True)
    yield from step_axis(x, foot, about=4, name="")


def _description(drawn: Picture) -> str:
    ends = [
        f"{curve.name} {drawn.value_text(curve.points[-1].value)} at step {curve.points[-1].step}"
        for curve in drawn.curves
        if curve.points
    ]
    return f"{drawn.metric} ends at: {'; '.join(ends)}."
