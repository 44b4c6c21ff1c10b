"""rlx compare: hold treatment runs against a control run, and say no more than the numbers allow."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.options import Metric, Seeds
from rlx.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from rlx.api.comparing import Compared
    from rlx.compare import Comparison
    from rlx.runs import Index


def compare(
    control: Annotated[str, typer.Argument(metavar="CONTROL", help="The control: an arm, or a run by name or id.")],
    treatments: Annotated[list[str], typer.Argument(metavar="TREATMENT...", help="The arms to hold against it.")],
    metric: Metric = None,
    seeds: Seeds = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 14 for an unverified run, too.")] = False,
    as_markdown: Annotated[bool, typer.Option("--md", help="Markdown instead of a terminal table.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="The values by step as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    plot: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Draw curves and noise: FILE.png, FILE.svg, or - for the terminal."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the page of rlx report on this comparison.")
    ] = None,
) -> None:
    """Compare arms, and say what may be reported.

    By step: difference, interval, p-value, and what differs besides the treatment. An arm is all its runs of the
    newest launch, one a seed; names joined by commas are one arm. Several seeds an arm say something about the
    treatment, one run says something about two checkpoints, item by item where the outputs were kept.
    Values meet at the last step at which all runs were validated; a peak is shown and never used. Exit code: 0 may
    be reported · 11 a run has not finished · 14 a run is invalid or incomplete, or the runs are not comparable.
    """
    from rlx.api.home import rlx_home
    from rlx.cli.text.pictures import IN_TERMINAL, check_files
    from rlx.runs import Index

    if as_markdown + as_csv + as_json + (plot == IN_TERMINAL) > 1:
        raise UsageError("--md, --csv, --json and --plot - exclude each other", "name one of them")
    check_files(plot, html)
    index = Index(rlx_home())
    compared = compare_named(index, (control, *treatments), metric, seeds or ())
    _print(compared.comparison, as_markdown, as_csv, as_json)
    _draw(index, compared, plot, html)
    raise typer.Exit(outcome(compared.comparison, strict))


def _print(comparison: Comparison, as_markdown: bool, as_csv: bool, as_json: bool) -> None:
    from rlx.cli.frame.output import print_json
    from rlx.cli.text.compare_text import as_answer, csv_text, markdown_text, print_terminal

    if as_json:
        print_json(as_answer(comparison))
    elif as_csv:
        print(csv_text(comparison), end="")
    elif as_markdown:
        print(markdown_text(comparison), end="")
    else:
        print_terminal(comparison)


def _draw(index: Index, compared: Compared, plot: str | None, html: Path | None) -> None:
    from rlx.cli.frame.output import narrate
    from rlx.cli.text.pictures import IN_TERMINAL, write_page, write_plot

    if plot is not None:
        write_plot(plot, compared)
    if html is not None:
        write_page(html, index, compared)
    for file in (plot, html):
        if file is not None and file != IN_TERMINAL:
            narrate(f"written: {file}")


def compare_named(index: Index, names: Sequence[str], metric: str | None, seeds: Collection[int]) -> Compared:
    """The comparison of the arms that the names mean, control first; says on stderr which runs were taken."""
    from rlx.api.arm_names import select_arms, selection_notes
    from rlx.api.comparing import compare_refs
    from rlx.cli.frame.output import narrate

    refs = select_arms(index, names, seeds)
    for note in selection_notes(index, names, refs):
        narrate(note)
    return compare_refs(index, refs, metric)


def outcome(comparison: Comparison, strict: bool) -> ExitCode:
    """Choose the exit code: what cannot be mended by waiting comes first."""
    if any(run.struck for run in comparison.runs) or any(contrast.errors for contrast in comparison.contrasts):
        return ExitCode.NOT_VERIFIED
    if comparison.interim:
        return ExitCode.NOT_FINISHED
    return ExitCode.NOT_VERIFIED if strict and not comparison.verified else ExitCode.OK
