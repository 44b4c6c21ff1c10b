"""Lay a picture out as a drawing: two panels on one step axis, validation above, noise beneath."""

from __future__ import annotations

from rlx.report.axes import Scale
from rlx.report.axis_reach import foot_note
from rlx.report.columns import columns
from rlx.report.curve_shapes import curve_shapes, value_grid, value_ticks
from rlx.report.legend import legend, style_of
from rlx.report.noise_panel import noise_panel, noise_shapes
from rlx.report.panel import Panel, step_axis
from rlx.report.picture import Picture
from rlx.report.shapes import Label, Scene, Shape, fitted

WIDE, NARROW = 760.0, 350.0
_LEFT, _RIGHT = 54.0, 14.0
_GAP, _FOOT = 66.0, 44.0


def scene(drawn: Picture, width: float = WIDE) -> Scene:
    """The drawing at `width` pixels; its height follows from what there is to show."""
    shapes, top = _head(drawn, width)
    styles = [style_of(index, curve) for index, curve in enumerate(drawn.curves)]
    x = Scale(0, max(1, drawn.last_step), _LEFT, width - _RIGHT)
    curves = _curve_panel(drawn, x, top, height=min(300.0, 0.62 * width))
    shapes += [*value_grid(drawn, curves), *curve_shapes(drawn, styles, curves)]
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
    notes = [note for note in (drawn.intervals, runs, foot_note(drawn, value_ticks(drawn)[0])) if note]
    shapes += [
        Label((10, 38.0 + 16 * row), fitted(note, width - 20, 11), "muted", size=11) for row, note in enumerate(notes)
    ]
    marks, end = legend(drawn.curves, 10, 44.0 + 16 * len(notes), width - 10)
    return [*shapes, *marks], end + 20


def _curve_panel(drawn: Picture, x: Scale, top: float, height: float) -> Panel:
    ticks = value_ticks(drawn)
    return Panel(top, top + height, x, Scale(ticks[0], ticks[-1], top + height, top))


def _description(drawn: Picture) -> str:
    ends = [
        f"{curve.name} ends at {drawn.value_text(curve.points[-1].value)} at step {curve.points[-1].step}"
        for curve in drawn.curves
        if curve.points
    ]
    noise = "; the planned and applied noise of each step is drawn beneath" if drawn.has_noise else ""
    return f"Line chart: {'; '.join(ends) or 'no values'}{noise}."
