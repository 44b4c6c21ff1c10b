"""The noise that recipes plan, before anything ran: the lower panel of a comparison alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlx.report.arm_noise import NoiseTrack
from rlx.report.axes import Scale
from rlx.report.columns import columns_of_noise
from rlx.report.legend import legend, style_of
from rlx.report.noise_panel import noise_panel, noise_shapes
from rlx.report.panel import step_axis
from rlx.report.picture import Curve, Picture
from rlx.report.picture_layout import WIDE
from rlx.report.shapes import Label, Scene

_LEFT, _RIGHT, _TITLE, _FOOT = 54.0, 14.0, 44.0, 44.0


def schedule_scene(sigmas: Mapping[str, Sequence[float]], width: float = WIDE) -> Scene:
    """The planned sigma of each arm by step, from step 1."""
    drawn = Picture(
        metric="planned noise",
        is_share=False,
        interim=False,
        curves=tuple(Curve(name, "", struck=False, points=()) for name in sigmas),
        noise=tuple(NoiseTrack(tuple(own), (), (), 0) for own in sigmas.values()),
        intervals="",
    )
    marks, end = legend(drawn.curves, 10, _TITLE, width - 10)
    panel = noise_panel(drawn, Scale(0, drawn.last_step, _LEFT, width - _RIGHT), end + 40)
    styles = [style_of(index, curve) for index, curve in enumerate(drawn.curves)]
    shapes = [Label((10, 20), drawn.metric, size=14, bold=True), *marks, *noise_shapes(drawn, styles, panel)]
    return Scene(
        width=width,
        height=panel.bottom + _FOOT,
        shapes=(*shapes, *step_axis(panel.x, panel.bottom, about=8)),
        columns=tuple(columns_of_noise(drawn, panel)),
        title="planned noise sigma by training step",
        description=f"Line chart: planned noise of {', '.join(sigmas)}.",
    )
