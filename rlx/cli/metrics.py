"""rlx metrics: show the metrics of runs as tables or plots."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rlx.cli.frame.completion import RUNS
from rlx.errors import UsageError

if TYPE_CHECKING:
    from rlx.api.metrics import RunMetrics

_IN_TERMINAL = "-"


def metrics(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="Arm, run name or id; several with commas. Default: the latest launch.",
            autocompletion=RUNS,
        ),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[GLOB]...", help="Metrics, such as '*entropy*' or a part of a name. Default: all."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="A line for each value.")] = False,
    plot: Annotated[
        str | None, typer.Option(metavar="-", help="Draw each metric in the terminal; - is the only place.")
    ] = None,
) -> None:
    """Show the metrics of runs as tables or plots.

    Without GLOB one line per metric: its course, first and last value; with it the values by step. Numbers of a run
    whose own evidence contradicts it are marked.
    """
    from rlx.api.metrics import metrics as read_metrics
    from rlx.cli.frame.output import narrate, patience, print_json
    from rlx.cli.text.metrics_text import csv_text, metrics_answer, print_plots, print_table

    if as_json + as_csv + (plot is not None) > 1:
        raise UsageError("--json, --csv and --plot exclude each other", "name one of them")
    if plot not in (None, _IN_TERMINAL):
        raise UsageError(
            f"--plot {plot}: metrics are drawn in the terminal only", "--plot -, or rlx compare --plot FILE"
        )
    with patience("reading the runs …"):
        found = read_metrics(run.split(",") if run else None, names or (), tell=narrate)
    if as_json:
        print_json(metrics_answer(found))
    elif as_csv:
        sys.stdout.write(csv_text(found))
    elif plot:
        print_plots(found)
    else:
        print_table(found, rows=bool(names))
        _narrate_next(found)


def _narrate_next(found: Sequence[RunMetrics]) -> None:
    from rlx.cli.frame.output import narrate

    arms = list(dict.fromkeys(each.ref.arm for each in found))
    narrate(f"next: rlx compare {' '.join(arms)}" if len(arms) > 1 else f"next: rlx diagnose {found[0].ref.run_id}")
