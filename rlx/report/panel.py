"""One plot with its scales, and what every plot has: ticks and the axis of steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rlx.report.axes import Scale, whole_ticks
from rlx.report.shapes import Label, Line, Shape


@dataclass(frozen=True, slots=True)
class Panel:
    top: float
    bottom: float
    x: Scale
    y: Scale


def tick(panel: Panel, y: float, text: str) -> Iterator[Shape]:
    """A grid line with its value."""
    yield Line(((panel.x.start, y), (panel.x.end, y)), "grid")
    yield Label((panel.x.start - 8, y + 4), text, "muted", size=11, anchor="end")


def step_axis(x: Scale, y: float, about: int, name: str = "training step") -> Iterator[Shape]:
    yield Line(((x.start, y), (x.end, y)), "axis")
    for step in whole_ticks(round(x.low), round(x.high), about):
        yield Line(((x(step), y), (x(step), y + 4)), "axis")
        yield Label((x(step), y + 18), str(step), "muted", size=11, anchor="middle")
    if name:
        yield Label(((x.start + x.end) / 2, y + 35), name, "muted", size=11, anchor="middle")
