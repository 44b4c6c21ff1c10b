"""Draw a comparison: one drawing as SVG, PNG or text, and a page that says everything. Pure: writes nothing.

drawn = picture(comparison, judged_runs)
svg_file(scene(drawn), made_by)    png_bytes(…)    text_plot(drawn, width)    html(Report(…))

Only `html` knows words; the others know shapes.
"""

from rlx.report.item_tables import items_to_read
from rlx.report.multiples import BANDS, EXPLORATORY, Multiples, drawn_arms, multiples
from rlx.report.multiples_layout import multiples_scene
from rlx.report.page import Report, html
from rlx.report.picture import Picture, picture
from rlx.report.picture_layout import scene
from rlx.report.planned_noise import schedule_scene
from rlx.report.png import png_bytes
from rlx.report.shapes import Scene
from rlx.report.svg import svg_file
from rlx.report.terminal import text_plot

__all__ = [
    "BANDS",
    "EXPLORATORY",
    "Multiples",
    "Picture",
    "Report",
    "Scene",
    "drawn_arms",
    "html",
    "items_to_read",
    "multiples",
    "multiples_scene",
    "picture",
    "png_bytes",
    "scene",
    "schedule_scene",
    "svg_file",
    "text_plot",
]
