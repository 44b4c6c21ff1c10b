"""rlx metrics: show the metrics of runs as tables or plots."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlx.cli.frame.options import RUNS
from rlx.cli.frame.output import console, narrate, patience, print_json, print_text
from rlx.cli.text.series_text import Series, series_lines
from rlx.errors import UsageError
from rlx.table import table_of_rows, to_csv

if TYPE_CHECKING:
    from rlx.api.metrics import RunMetrics
    from rlx.report import Picture

_IN_TERMINAL = "-"
_CSV_HEADER = ("run_id", "arm", "seed", "verdict", "step", "metric", "value")


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
        arms = list(dict.fromkeys(each.ref.arm for each in found))
        narrate(f"next: rlx compare {' '.join(arms)}" if len(arms) > 1 else f"next: rlx diagnose {found[0].ref.run_id}")


def print_table(run_metrics: Sequence[RunMetrics], *, rows: bool) -> None:
    for line in series_lines(list(_series(run_metrics)), console().width, rows=rows):
        print_text(line)


def print_plots(run_metrics: Sequence[RunMetrics]) -> None:
    """Draw each metric with a curve for each run, one below the other."""
    from rlx.cli.text.pictures import print_plot

    for metric in _names(run_metrics):
        print_plot(_picture(metric, run_metrics))


def csv_text(run_metrics: Sequence[RunMetrics]) -> str:
    """Return a line per value, as the log has it."""
    return to_csv(table_of_rows(_CSV_HEADER, list(_csv_cells(run_metrics))))


def metrics_answer(run_metrics: Sequence[RunMetrics]) -> dict[str, Any]:
    """Return each run with its verdict, and each metric as [step, value] pairs."""
    from rlx.cli.text.run_document import verdict_document

    return {
        "runs": [
            {
                "run_id": each.ref.run_id,
                "arm": each.ref.arm,
                "seed": each.ref.seed,
                "state": each.judged.state,
                "verdict": verdict_document(each.judged.verdict),
                "is_result": each.is_result,
                "metrics": {name: list(map(list, values.items())) for name, values in each.series.items()},
            }
            for each in run_metrics
        ]
    }


def _names(run_metrics: Sequence[RunMetrics]) -> list[str]:
    return sorted({name for each in run_metrics for name in each.series})


def _labels(run_metrics: Sequence[RunMetrics]) -> list[str]:
    from rlx.cli.text.run_text import run_labels

    labels = run_labels([each.ref for each in run_metrics])
    return [labels[each.ref.run_id] for each in run_metrics]


def _series(run_metrics: Sequence[RunMetrics]) -> Iterator[Series]:
    """Yield the runs of each metric side by side, in their order."""
    labels = _labels(run_metrics)
    for name in _names(run_metrics):
        for each, label in zip(run_metrics, labels, strict=True):
            if name in each.series:
                yield Series(name, label, each.series[name], each.exclusion)


def _csv_cells(run_metrics: Sequence[RunMetrics]) -> Iterator[tuple[str, ...]]:
    for each in run_metrics:
        run = (each.ref.run_id, each.ref.arm, str(each.ref.seed), each.judged.verdict.word)
        for name, values in each.series.items():
            yield from ((*run, str(step), name, repr(value)) for step, value in values.items())


def _picture(metric: str, run_metrics: Sequence[RunMetrics]) -> Picture:
    from math import isfinite

    from rlx.report import Picture
    from rlx.report.picture import Curve, CurvePoint

    curves = [
        Curve(
            label,
            each.exclusion,
            not each.is_result,
            tuple(CurvePoint(step, value) for step, value in each.series[metric].items() if isfinite(value)),
        )
        for each, label in zip(run_metrics, _labels(run_metrics), strict=True)
        if metric in each.series
    ]
    drawn = [curve for curve in curves if curve.points]
    return Picture(metric, False, False, tuple(drawn), (None,) * len(drawn), "")
