"""Draw a comparison as SVG, PNG or text, and write it as an HTML page. Nothing here writes a file.

    drawn = picture(comparison, judged_runs)
    svg_file(scene(drawn), made_by)    png_bytes(…)    text_plot(drawn, width)    html(Report(…))

Only `html` contains sentences; the others contain shapes.
"""

from rlx.report.drawing import scene, schedule_scene
from rlx.report.item_tables import items_to_read
from rlx.report.multiples import BANDS, EXPLORATORY, Multiples, drawn_arms, multiples, multiples_scene
from rlx.report.page import Report, html
from rlx.report.picture import Picture, picture
from rlx.report.png import png_bytes
from rlx.report.shapes import Drawing
from rlx.report.svg import svg_file
from rlx.report.terminal import text_plot

__all__ = [
    "BANDS",
    "EXPLORATORY",
    "Drawing",
    "Multiples",
    "Picture",
    "Report",
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
