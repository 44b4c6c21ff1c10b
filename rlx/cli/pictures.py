"""What `rlx compare` and `rlx report` draw: the plot as a file or in the terminal, and the page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.cli.derived_files import check_target, made_by, replace_file
from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.cli.compared import Compared
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


def check_files(plot: str | None, page: Path | None) -> None:
    """Before any host is asked: can these be written? Raises UsageError or RlxError."""
    if page is not None:
        check_target(page)
    if plot is None or plot == IN_TERMINAL:
        return
    if Path(plot).suffix.lower() not in _SUFFIXES:
        raise UsageError(f"--plot {plot}: rlx draws .png and .svg", "name such a file, or - for the terminal")
    check_target(Path(plot))


def write_files(compared: Compared, plot: str | None, page: Path | None) -> None:
    """The plot as the file of that name or in the terminal (`-`), and the page."""
    from rlx.report import picture

    if plot is not None:
        _write_plot(plot, picture(compared.comparison, compared.runs))
    if page is not None:
        write_page(page, report_of(compared))


def write_page(path: Path, report: Report) -> None:
    from rlx.cli.output import narrate
    from rlx.report import html

    replace_file(path, html(report).encode())
    narrate(f"written: {path}")


def report_of(compared: Compared) -> Report:
    from rlx.report import Report

    return Report(compared.runs, compared.comparison, now(), made_by(), items=compared.items)


def report_without_comparison(runs: Sequence[JudgedRun], problem: str) -> Report:
    """For runs that no metric brings together: verdicts and evidence still say what happened."""
    from rlx.report import Report

    return Report(runs, None, now(), made_by(), problem=problem)


def now() -> str:
    """The time of making with its distance from UTC: a report is read elsewhere."""
    import time

    return time.strftime("%Y-%m-%d %H:%M %z")


def _write_plot(plot: str, drawn: Picture) -> None:
    from rlx.cli.output import narrate
    from rlx.report import png_bytes, scene, svg_file

    if plot == IN_TERMINAL:
        _print_plot(drawn)
        return
    write = svg_file if Path(plot).suffix.lower() == ".svg" else png_bytes
    replace_file(Path(plot), write(scene(drawn), made_by()))
    narrate(f"written: {plot}")


def _print_plot(drawn: Picture) -> None:
    """As wide as the terminal; without colours where NO_COLOR is set or nothing shows them."""
    from rich.text import Text

    from rlx.cli.output import console
    from rlx.report import text_plot

    out = console()
    width = min(_WIDEST, out.width) if sys.stdout.isatty() else _WIDTH_OF_A_PIPE
    out.print()
    for line in text_plot(drawn, width):
        out.print(Text.assemble(*((text, _STYLES.get(ink, "")) for text, ink in line)), soft_wrap=True)
