"""Metrics of runs as lines, plots, CSV and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rlx.cli.text.series_text import Series, series_lines

if TYPE_CHECKING:
    from rlx.api.metrics import RunMetrics
    from rlx.report import Picture

_CSV_HEADER = ("run_id", "arm", "seed", "verdict", "step", "metric", "value")


def print_table(found: Sequence[RunMetrics], *, rows: bool) -> None:
    from rlx.cli.frame.output import console, print_text

    for line in series_lines(list(_series(found)), console().width, rows=rows):
        print_text(line)


def print_plots(found: Sequence[RunMetrics]) -> None:
    """Draw each metric with a curve for each run, one below the other."""
    from rlx.cli.text.pictures import print_plot

    for metric in _names(found):
        print_plot(_picture(metric, found))


def csv_text(found: Sequence[RunMetrics]) -> str:
    """A line for each value, as the log has it."""
    from rlx.table import table_of_rows, to_csv

    return to_csv(table_of_rows(_CSV_HEADER, list(_csv_cells(found))))


def metrics_answer(found: Sequence[RunMetrics]) -> dict[str, Any]:
    """Each run with its verdict, each metric as [step, value] pairs."""
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
            for each in found
        ]
    }


def _names(found: Sequence[RunMetrics]) -> list[str]:
    return sorted({name for each in found for name in each.series})


def _labels(found: Sequence[RunMetrics]) -> list[str]:
    from rlx.cli.text.run_labels import run_labels

    labels = run_labels([each.ref for each in found])
    return [labels[each.ref.run_id] for each in found]


def _series(found: Sequence[RunMetrics]) -> Iterator[Series]:
    """The runs of each metric side by side, in their order."""
    labels = _labels(found)
    for name in _names(found):
        for each, label in zip(found, labels, strict=True):
            if name in each.series:
                yield Series(name, label, each.series[name], each.exclusion)


def _csv_cells(found: Sequence[RunMetrics]) -> Iterator[tuple[str, ...]]:
    for each in found:
        run = (each.ref.run_id, each.ref.arm, str(each.ref.seed), each.judged.verdict.word)
        for name, values in each.series.items():
            yield from ((*run, str(step), name, repr(value)) for step, value in values.items())


def _picture(metric: str, found: Sequence[RunMetrics]) -> Picture:
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
        for each, label in zip(found, _labels(found), strict=True)
        if metric in each.series
    ]
    drawn = [curve for curve in curves if curve.points]
    return Picture(metric, False, False, tuple(drawn), (None,) * len(drawn), "")
