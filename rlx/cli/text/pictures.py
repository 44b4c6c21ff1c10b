"""Plots of comparisons and metrics, as a file or in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.api.generated_files import check_picture, check_target, write_scene
from rlx.cli.frame.output import console, print_text

if TYPE_CHECKING:
    from rlx.api.judged_comparison import Compared
    from rlx.report import Picture

IN_TERMINAL = "-"
_STYLES = {"text": "", "muted": "dim", "excluded": "dim"} | {
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
    """Check that these can be written, before any host is asked. Raise UsageError or RlxError."""
    if page is not None:
        check_target(page)
    if plot is not None and plot != IN_TERMINAL:
        check_picture(plot)


def write_plot(plot: str, compared: Compared, curves: Sequence[str]) -> None:
    """Draw values and noise, or the training curves that patterns choose, as the file of that name, or here (`-`)."""
    from rlx.report import picture, scene

    if curves:
        _write_multiples(plot, compared, curves)
    elif plot == IN_TERMINAL:
        print_plot(picture(compared.comparison, compared.runs))
    else:
        write_scene(plot, scene(picture(compared.comparison, compared.runs)))


def _write_multiples(plot: str, compared: Compared, curves: Sequence[str]) -> None:
    from rlx.report import BANDS, EXPLORATORY, drawn_arms, multiples, multiples_scene

    found = multiples(drawn_arms(compared.comparison, compared.runs), curves)
    if plot != IN_TERMINAL:
        write_scene(plot, multiples_scene(found))
        return
    for drawn in found.pictures:
        print_plot(drawn)
    # A plot of characters has no bands.
    for note in (EXPLORATORY, *found.notes):
        if note != BANDS:
            print_text(f"  {note}")


def print_plot(drawn: Picture) -> None:
    """Print as wide as the terminal, without colours where NO_COLOR is set or nothing shows them."""
    from rich.text import Text

    from rlx.report import text_plot

    out = console()
    width = min(_WIDEST, out.width) if sys.stdout.isatty() else _WIDTH_OF_A_PIPE
    out.print()
    for line in text_plot(drawn, width):
        out.print(Text.assemble(*((text, _STYLES.get(ink, "")) for text, ink in line)), soft_wrap=True)
