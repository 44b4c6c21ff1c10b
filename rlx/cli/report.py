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
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The page to write; report.html, and none with --bundle alone."
        ),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", metavar="FILE.tar.gz", help="Write the evidence as an archive for rlx judge."),
    ] = None,
    metrics: Metrics = None,
    seeds: Seeds = None,
    reach: Annotated[
        float | None,
        typer.Option(metavar="VALUE", help="Show when each run reached this value of the metric: 0.7 for 70 %."),
    ] = None,
) -> None:
    """Write a page that says what these runs show, and what proves it.

    Summary, curves of validation and training, verdicts with their evidence, what differs, items, time and versions in
    one HTML file that opens offline. A report written before is replaced, any other file is not. Exit code 0: the page
    is written. What may be reported stands in it, and is the exit code of rlx compare.
    --bundle writes an archive of manifests, logs, metrics, events, kept outputs and all that was computed of them,
    without weights and secrets: rlx judge computes it again on any machine.
    """
    from rlx.api.bundling import bundle as write_bundle
    from rlx.api.reporting import report as write_report
    from rlx.api.telling import unheard
    from rlx.cli.frame.output import narrate, patience, print_text

    metric, curves = split_metrics(metrics)
    arms, chosen, tell = names or (), seeds or (), narrate
    with patience("reading the runs …"):
        if output is not None or bundle is None:
            page = output or Path("report.html")
            written = write_report(page, *arms, metric=metric, seeds=chosen, curves=curves, reach=reach, tell=tell)
            print_text(str(written))
            tell = unheard
        if bundle is not None:
            print_text(str(write_bundle(bundle, *arms, metric=metric, seeds=chosen, tell=tell)))
