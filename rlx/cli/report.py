"""rlx report: write an HTML report of runs with their evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rlx.cli.frame.comparison_options import AllowUnverified, Metrics, Seeds, Systems, reportable_exit, split_metrics
from rlx.cli.frame.options import RUNS
from rlx.cli.frame.output import narrate, patience, print_text


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
            "--output",
            "-o",
            metavar="FILE",
            help="The page to write. Default: report.html, or no page with --bundle alone.",
        ),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option("--bundle", metavar="FILE.tar.gz", help="Write the evidence as an archive for rlx verify."),
    ] = None,
    metrics: Metrics = None,
    seeds: Seeds = None,
    reach: Annotated[
        float | None,
        typer.Option(metavar="VALUE", help="Show when each run reached this value of the metric: 0.7 for 70 %."),
    ] = None,
    systems: Systems = False,
    allow_unverified: AllowUnverified = False,
) -> None:
    """Write an HTML report of runs with their evidence.

    Summary, curves of validation and training, verdicts with their evidence, differences, items, time and versions in
    one HTML file that works offline. A report written before is replaced, any other file is not. --bundle writes an
    archive of manifests, logs, metrics, events, kept outputs and all that was computed of them, without weights and
    secrets: rlx verify computes it again on any machine. Exit code, once the files are written: that of rlx compare. 0:
    the statements may be reported, of a single arm its values · 11 · 14.
    """
    from rlx.api.bundles import BundleRequest, bundle_asked
    from rlx.api.reporting import report_named
    from rlx.api.runs import unheard

    metric, curves = split_metrics(metrics)
    arms, chosen, tell = names or (), seeds or (), narrate
    with patience("reading the runs …"):
        if output is not None or bundle is None:
            page = output or Path("report.html")
            found = report_named(page, arms, metric, chosen, curves, reach, tell, systems)
            print_text(str(page))
            tell = unheard
        if bundle is not None:
            found = bundle_asked(bundle, BundleRequest(tuple(arms), metric, tuple(chosen), systems), tell)
            print_text(str(bundle))
    raise reportable_exit(found, allow_unverified)
