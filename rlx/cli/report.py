"""rlx report: everything that is known of some runs as one page, to be passed on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlx.cli.frame.completion import RUNS
from rlx.cli.frame.options import Metrics, Seeds, split_metrics


def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CONTROL TREATMENT... | RUN]...",
            help="Arms, run names or ids, the control first. Default: all arms of the latest launch.",
            autocompletion=RUNS,
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")] = Path(
        "report.html"
    ),
    metrics: Metrics = None,
    seeds: Seeds = None,
) -> None:
    """Write a page that says what these runs show, and what proves it.

    Summary, curves of validation and training, verdicts with their evidence, what differs, items, time and versions in
    one HTML file that opens offline. A report written before is replaced, any other file is not. Exit code 0: the page
    is written. What may be reported stands in it, and is the exit code of rlx compare.
    """
    from rlx.api.reporting import report as write_report
    from rlx.cli.frame.output import narrate, print_text

    metric, curves = split_metrics(metrics)
    written = write_report(output, *(names or ()), metric=metric, seeds=seeds or (), curves=curves, tell=narrate)
    print_text(str(written))
