"""rlx compare: compare arms, and state what the data supports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.comparison_options import AllowUnverified, Metrics, Seeds, Systems, reportable_exit, split_metrics
from rlx.cli.frame.options import RUNS
from rlx.cli.frame.output import narrate, patience, print_json, print_text
from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.api.judged_comparison import Compared
    from rlx.runs import Index


def compare(
    control: Annotated[
        str, typer.Argument(metavar="CONTROL", help="The control: an arm, or a run by name or id.", autocompletion=RUNS)
    ],
    treatments: Annotated[
        list[str], typer.Argument(metavar="TREATMENT...", help="Arms to compare with the control.", autocompletion=RUNS)
    ],
    metrics: Metrics = None,
    seeds: Seeds = None,
    systems: Systems = False,
    allow_unverified: AllowUnverified = False,
    strict: Annotated[bool, typer.Option("--strict", hidden=True, help="Without effect: the default.")] = False,
    as_markdown: Annotated[bool, typer.Option("--md", help="Markdown instead of a terminal table.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="The values by step as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Draw the values and the noise, or the training curves of --metric: FILE.png, FILE.svg, or - here.",
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the page of rlx report on this comparison.")
    ] = None,
) -> None:
    """Compare arms, and state what the data supports.

    By step: difference, interval, p-value, and what differs besides the treatment. An arm is all its runs of the newest
    launch in which all named arms have finished, one per seed; ids joined by commas are one arm. Several seeds say
    something about the treatment, single runs only about two checkpoints, item by item where the outputs were kept.
    Values are compared at the last step that all runs validated; a peak is shown and never used. Runs of a registered
    experiment answer its question first, once all of them have ended. Exit code: 0 the claim may be reported as worded:
    all runs are valid and comparable · 11 a run has not finished, or a registered one is missing · 14 it may not: a run
    is invalid, incomplete, contradicted by its own evidence or unverified, the runs are not comparable, the control
    collapsed, or the registered question has no answer.
    """
    from rlx.api.comparing import compare_named
    from rlx.api.runs import open_index
    from rlx.cli.text.pictures import IN_TERMINAL, check_files

    if as_markdown + as_csv + as_json + (plot == IN_TERMINAL) > 1:
        raise UsageError("--md, --csv, --json and --plot - exclude each other", "name one of them")
    check_files(plot, html)
    metric, curves = split_metrics(metrics)
    index, remarks = open_index(), list[str]()
    try:
        with patience("reading the runs …"):
            compared = compare_named(index, (control, *treatments), metric, seeds or (), remarks.append, systems)
        _print(compared, as_markdown, as_csv, as_json)
    finally:
        # After the answer, but before what is wrong with it.
        for remark in remarks:
            narrate(remark)
    _draw(index, compared, plot, html, curves)
    raise reportable_exit(compared, allow_unverified)


def _print(compared: Compared, as_markdown: bool, as_csv: bool, as_json: bool) -> None:
    from rlx.api.reporting import device_reports
    from rlx.cli.text.compare_text import csv_text, left_out_lines, markdown_text, print_terminal, registered_words
    from rlx.compare.device_report import device_lines
    from rlx.compare.sentences import comparison_document, waived_in_words

    comparison = compared.comparison
    devices = device_reports(compared.runs, {run.run_id: run.label for run in comparison.runs})
    if as_json:
        print_json({**comparison_document(comparison), **({"devices": devices} if devices else {})})
    elif as_csv:
        print(csv_text(comparison), end="")
        waived = filter(None, [waived_in_words(comparison).removeprefix("; ")])
        repeats = [arm.repeats_words for arm in comparison.arms if arm.repeats]
        for line in (*registered_words(comparison), *repeats, *waived, *left_out_lines(comparison)):
            narrate(line)
    elif as_markdown:
        print(markdown_text(comparison), end="")
    else:
        print_terminal(comparison)
        for line in ("", *device_lines(devices)) if devices else ():
            print_text(line)


def _draw(index: Index, compared: Compared, plot: str | None, html: Path | None, curves: Sequence[str]) -> None:
    from rlx.api.reporting import write_page
    from rlx.cli.text.pictures import IN_TERMINAL, write_plot

    if plot is not None:
        write_plot(plot, compared, curves)
    if html is not None:
        write_page(html, index, compared, curves)
    for file in (plot, html):
        if file is not None and file != IN_TERMINAL:
            narrate(f"written: {file}")
