"""Draw a drawing as PNG: the same shapes, by matplotlib."""

from __future__ import annotations

import io
import warnings
from typing import Any

from rlx.errors import RlxError
from rlx.installed import install_command
from rlx.report.safe_text import shown
from rlx.report.shapes import LIGHT, Drawing, DrawnText, FilledArea, Mark, Shape, Stroke, outline

_PIXELS_PER_INCH = 96
# Two pixels of the file for one of the drawing, which is what screens of today show.
_DENSITY = 2
_POINT = 72 / _PIXELS_PER_INCH
_ANCHORS: dict[str, Any] = {"start": "left", "middle": "center", "end": "right"}


def png_bytes(scene: Drawing, made_by: str) -> bytes:
    """Return the file. Raises RlxError where matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise RlxError(
            "a PNG requires matplotlib, which is not installed",
            f"{install_command('plot')}, or choose a file name that ends in .svg",
        ) from None
    size = (scene.width / _PIXELS_PER_INCH, scene.height / _PIXELS_PER_INCH)
    figure = Figure(figsize=size, dpi=_DENSITY * _PIXELS_PER_INCH, facecolor=LIGHT["paper"])
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, scene.width), ylim=(scene.height, 0))
    axes.set_axis_off()
    for order, shape in enumerate(scene.shapes):
        axes.add_artist(_artist(shape, order))
    file = io.BytesIO()
    with warnings.catch_warnings():
        # A name may be in a script that matplotlib's font lacks: it then shows boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(file, format="png", metadata={"Software": made_by})
    return file.getvalue()


def _artist(shape: Shape, order: int) -> Any:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Polygon

    match shape:
        case Stroke():
            look = {"linewidth": shape.width * _POINT, "linestyle": _dash(shape), "alpha": shape.opacity}
            xs, ys = zip(*shape.points, strict=True) if shape.points else ((), ())
            return Line2D(xs, ys, color=LIGHT[shape.ink], zorder=order, **look)
        case FilledArea():
            return Polygon(shape.points, facecolor=LIGHT[shape.ink], alpha=shape.opacity, linewidth=0, zorder=order)
        case Mark():
            face = LIGHT[shape.ink if shape.filled else "paper"]
            return Polygon(
                outline(shape), facecolor=face, edgecolor=LIGHT[shape.ink], linewidth=1.6 * _POINT, zorder=order
            )
        case DrawnText():
            return _text(shape, order)


def _dash(line: Stroke) -> Any:
    """Convert dashes: matplotlib counts them in line widths."""
    return (0, [float(part) / line.width for part in line.dash.split()]) if line.dash else "solid"


def _text(label: DrawnText, order: int) -> Any:
    from matplotlib.text import Text

    return Text(
        *label.at,
        shown(label.text),
        color=LIGHT[label.ink],
        fontsize=label.size * _POINT,
        fontweight="bold" if label.bold else "normal",
        horizontalalignment=_ANCHORS[label.anchor],
        verticalalignment="baseline",
        parse_math=False,
        zorder=order,
    )
