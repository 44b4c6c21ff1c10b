"""Draw for `rlx compare` and `rlx report`: the plot as a file or in the terminal, and the page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.api.comparing import Compared, Uncompared
from rlx.api.derived_files import check_target, made_by, replace_file
from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.evidence import JudgedRun
    from rlx.evidence.diagnosis import Diagnosis
    from rlx.report import Picture, Scene
    from rlx.runs import Index

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
    """Check that these can be written, before any host is asked. Raises UsageError or RlxError."""
    if page is not None:
        check_target(page)
    if plot is None or plot == IN_TERMINAL:
        return
    if Path(plot).suffix.lower() not in _SUFFIXES:
        raise UsageError(f"--plot {plot}: rlx draws .png and .svg", "name such a file, or - for the terminal")
    check_target(Path(plot))


def write_plot(plot: str, compared: Compared) -> None:
    """The plot as the file of that name, or in the terminal (`-`)."""
    from rlx.report import picture

    _write_plot(plot, picture(compared.comparison, compared.runs))


def write_page(path: Path, index: Index, found: Compared | Uncompared) -> None:
    """The page of a comparison, or of runs that no metric brings together."""
    import time

    from rlx.report import Report, html

    # With the distance from UTC: a report is read elsewhere.
    made = time.strftime("%Y-%m-%d %H:%M %z")
    diagnoses = _diagnoses(index, found.runs)
    if isinstance(found, Compared):
        page = Report(found.runs, found.comparison, made, made_by(), items=found.items, diagnoses=diagnoses)
    else:
        page = Report(found.runs, None, made, made_by(), problem=found.problem, diagnoses=diagnoses)
    replace_file(path, html(page).encode())


def _diagnoses(index: Index, runs: Sequence[JudgedRun]) -> dict[str, Diagnosis]:
    """Diagnose runs that did not finish by their logs. A host that cannot be asked leaves its runs out.

    A run that waits for its devices has no log yet.
    """
    from rlx.plan import RunState
    from rlx.runs import resolve
    from rlx.runs.judging.diagnosed import diagnose_runs

    ids = [run.run_id for run in runs if run.state not in (RunState.FINISHED, RunState.QUEUED)]
    found = diagnose_runs(index, resolve(index, ids)) if ids else []
    return {each.row.ref.run_id: each.diagnosis for each in found if each.row is not None and each.problem is None}


def _write_plot(plot: str, drawn: Picture) -> None:
    from rlx.report import scene

    if plot == IN_TERMINAL:
        _print_plot(drawn)
    else:
        write_scene(plot, scene(drawn))


def write_scene(plot: str, drawing: Scene) -> None:
    """The drawing as the file of that name, .svg or .png."""
    from rlx.report import png_bytes, svg_file

    write = svg_file if Path(plot).suffix.lower() == ".svg" else png_bytes
    replace_file(Path(plot), write(drawing, made_by()))


def _print_plot(drawn: Picture) -> None:
    """Print as wide as the terminal, without colours where NO_COLOR is set or nothing shows them."""
    from rich.text import Text

    from rlx.cli.frame.output import console
    from rlx.report import text_plot

    out = console()
    width = min(_WIDEST, out.width) if sys.stdout.isatty() else _WIDTH_OF_A_PIPE
    out.print()
    for line in text_plot(drawn, width):
        out.print(Text.assemble(*((text, _STYLES.get(ink, "")) for text, ink in line)), soft_wrap=True)
