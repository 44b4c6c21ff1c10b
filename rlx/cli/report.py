"""rlx report: everything that is known of some runs as one page, to be passed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.errors import ExitCode, RlxError, UsageError

if TYPE_CHECKING:
    from rlx.compare import Comparison
    from rlx.evidence import ItemScores, JudgedRun
    from rlx.report import Report
    from rlx.runs import Index, RunRef

    Arms = Sequence[Sequence[JudgedRun]]
    Items = Mapping[int, Mapping[str, ItemScores]]


def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CONTROL TREATMENT... | RUN]...",
            help="Arms, run names or ids, the control first. Default: all arms of the latest launch.",
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("report.html"),
    metric: Annotated[
        str | None, typer.Option(help="Metric name or a part of it. Default: the validation metric of the log.")
    ] = None,
) -> None:
    """Write a page that says what these runs show, and what proves it.

    Summary, curves, verdicts with their evidence, what differs, items, time and versions in one HTML file that opens
    offline. A report written before is replaced, any other file is not. Exit code 0 says that the page is written;
    what may be reported is in the page, and in the exit code of rlx compare.
    """
    from rlx.cli.derived_files import check_target
    from rlx.cli.pictures import write_page
    from rlx.cli.selection import open_index

    check_target(output)
    index = open_index()
    write_page(output, make_report(index, _arms(index, names), metric))
    print(output)


def make_report(index: Index, arms: Sequence[Sequence[RunRef]], metric: str | None) -> Report:
    """The report of these arms, the control's runs first. Asks their hosts."""
    import time

    from rlx.cli.derived_files import made_by
    from rlx.report import Report

    judged = _judged(index, arms)
    made = time.strftime("%Y-%m-%d %H:%M %z")
    runs = [run for arm in judged for run in arm]
    try:
        comparison, items = _compared(index, [ref for arm in arms for ref in arm], judged, metric)
    except RlxError as problem:
        if problem.exit_code not in (ExitCode.NOT_VERIFIED, ExitCode.NOT_FINISHED):
            raise
        return Report(runs, None, made, made_by(), problem=problem.message)
    return Report(runs, comparison, made, made_by(), items=items)
