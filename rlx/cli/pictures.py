"""What `rlx compare` and `rlx report` draw: the plot as a file or in the terminal, and the page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.cli.derived_files import check_target, made_by, replace_file
from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.compare import Comparison
    from rlx.evidence import JudgedRun
    from rlx.report import Picture, Report

IN_TERMINAL = "-"
_SUFFIXES = (".png", ".svg")
_STYLES = {"text": "", "muted": "dim", "struck": "dim"} | {
    "s0": "blue",
    "s1": "dark_orange",
    "s2": "green",
    "s3": "magenta",
    "s4": "yellow",
    "s5": "cyan",
}
_WIDEST = 110
_WIDTH_OF_A_PIPE = 80


def check_plot(plot: str) -> None:
    """Before anything else is done: is this a file that can be drawn? Raises UsageError or RlxError."""
    if plot == IN_TERMINAL:
        return
    if Path(plot).suffix.lower() not in _SUFFIXES:
        raise UsageError(f"--plot {plot}: rlx draws .png and .svg", "name such a file, or - for the terminal")
    check_target(Path(plot))


def write_plot(plot: str, comparison: Comparison, runs: Sequence[JudgedRun]) -> None:
    """The curves and the noise of a comparison in the terminal (`-`), or as the file of that name."""
    from rlx.report import picture, png_bytes, scene, svg_file

    drawn = picture(comparison, runs)
    if plot == IN_TERMINAL:
        _print_plot(drawn)
        return
    write = svg_file if Path(plot).suffix.lower() == ".svg" else png_bytes
    replace_file(Path(plot), write(scene(drawn), made_by()))


def _print_plot(drawn: Picture) -> None:
    """As wide as the terminal; without colours where NO_COLOR is set or nothing shows them."""
    from rich.text import Text

    from rlx.cli.output import console
    from rlx.report import text_plot

    out = console()
    width = min(_WIDEST, out.width) if sys.stdout.isatty() else _WIDTH_OF_A_PIPE
    for line in text_plot(drawn, width):
        out.print(Text.assemble(*((text, _STYLES.get(ink, "")) for text, ink in line)), soft_wrap=True)


def write_page(path: Path, report: Report) -> None:
    from rlx.report import html

    replace_file(path, html(report).encode())
