"""The tables of a comparison: a row a validated step, a column an arm, and for CSV one a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rlx.cli.text.pace_text import pace_rows
from rlx.evidence.verdict import VerdictStatus
from rlx.table import Cell, Table, marked, table_of_rows

if TYPE_CHECKING:
    from rlx.compare import ComparedArm, Comparison


def values_by_step(comparison: Comparison) -> Table:
    """Return what to read: the mean of each arm, and what each treatment differs by."""
    return table_of_rows(_header(comparison), list(_rows(comparison)), right=True)


def exact_values(comparison: Comparison) -> Table:
    """Return what to compute with: numbers as the log has them, and the verdicts in columns of their own."""
    return table_of_rows(_exact_header(comparison), list(_exact_rows(comparison)), right=True)


def _header(comparison: Comparison) -> list[str]:
    """Each arm with its verdict unless that is `valid`: the word must be seen before the number."""
    return ["step", *(_title(arm, "mean ± sd") for arm in comparison.arms), *_difference_titles(comparison)]


def _exact_header(comparison: Comparison) -> list[str]:
    """The columns of numbers, then for each arm, run and difference one of its verdict."""
    columns = [name for arm in comparison.arms for name in (_title(arm, "mean"), *_spread_titles(arm))]
    return ["step", *columns, *_difference_titles(comparison), *(f"{name} verdict" for name, _ in _words(comparison))]


def _spread_titles(arm: ComparedArm) -> list[str]:
    """Title what an arm of several runs has beside its mean: their standard deviation, and each run."""
    return [f"{arm.label} sd", *(run.label for run in arm.runs)] if len(arm.runs) > 1 else []


def _difference_titles(comparison: Comparison) -> list[str]:
    """`aqn - baseline (points)`; with the word of a difference whose cells are not marked with it."""
    unit = "points" if comparison.is_share else ""
    words = zip(comparison.difference_words(), comparison.difference_exclusions(), strict=True)
    notes = [", ".join(filter(None, (unit, "" if exclusion else word))) for word, exclusion in words]
    return [marked(name, note) for name, note in zip(_difference_names(comparison), notes, strict=True)]


def _difference_names(comparison: Comparison) -> list[str]:
    return [f"{arm.label} - {comparison.control.label}" for arm in comparison.treatments]


def _words(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """The verdict of each arm, of each run of an arm of several, and of each difference."""
    for arm in comparison.arms:
        yield arm.label, arm.word
        if len(arm.runs) > 1:
            yield from ((run.label, run.word) for run in arm.runs)
    yield from zip(_difference_names(comparison), comparison.difference_words(), strict=True)


def _title(arm: ComparedArm, value: str) -> str:
    """`aqn`, `aqn (invalid)`; of several runs what their value is: `aqn (mean of 3)`, `aqn (mean of 3, 1 invalid)`."""
    words = Counter(run.word for run in arm.runs if run.word)
    if len(arm.runs) == 1:
        return " ".join([arm.label, *(f"({word})" for word in words)])
    notes = [f"{value} of {len(arm.runs)}", *(f"{count} {word}" for word, count in words.items())]
    return f"{arm.label} ({', '.join(notes)})"


def _rows(comparison: Comparison) -> Iterator[list[Cell]]:
    for row in comparison.steps:
        cells = [
            _cell(arm, _shown(comparison, arm, row.step, value))
            for arm, value in zip(comparison.arms, row.values, strict=True)
        ]
        yield [Cell(str(row.step)), *cells, *_differences(comparison, row.values, exact=False)]
    blanks = [Cell("") for _ in comparison.treatments]
    for name in ("peak", "final"):
        points = [(arm, getattr(arm, name)) for arm in comparison.arms]
        cells = [_cell(arm, f"{point.value:.4g} @ {point.step}" if point else "") for arm, point in points]
        yield [Cell(name), *cells, *blanks]
    for name, texts, changes in pace_rows(comparison.arms):
        cells = [_cell(arm, text) for arm, text in zip(comparison.arms, texts, strict=True)]
        yield [Cell(name), *cells, *_changes(comparison, changes)]


def _shown(comparison: Comparison, arm: ComparedArm, step: int, value: float | None) -> str:
    """`0.7058`, of several runs `0.7058 ± 0.0102`, or how many of them have a value."""
    number = ("{:.4f}" if comparison.is_share else "{:.6g}").format
    if value is None:
        have = sum(step in run.series for run in arm.runs)
        return f"{have} of {len(arm.runs)} runs" if have else ""
    spread = arm.spread.get(step)
    return number(value) if spread is None else f"{number(value)} ± {number(spread)}"


def _exact_rows(comparison: Comparison) -> Iterator[list[str]]:
    """Numbers as the log has them, then the verdicts: a cell with both would be no number."""
    verdicts = [word or VerdictStatus.VALID.value for _, word in _words(comparison)]
    for row in comparison.steps:
        numbers = [
            number
            for arm, value in zip(comparison.arms, row.values, strict=True)
            for number in _exact_numbers(arm, row.step, value)
        ]
        differences = (cell.text for cell in _differences(comparison, row.values, exact=True))
        yield [str(row.step), *numbers, *differences, *verdicts]


def _exact_numbers(arm: ComparedArm, step: int, value: float | None) -> list[str]:
    """The mean of the arm; where it has several runs their standard deviation and the value of each, too."""
    together = [_exact(value), _exact(arm.spread.get(step))]
    return [*together, *(_exact(run.series.get(step)) for run in arm.runs)] if len(arm.runs) > 1 else together[:1]


def _exact(value: float | None) -> str:
    return "" if value is None else repr(value)


def _cell(arm: ComparedArm, text: str) -> Cell:
    return Cell(text, exclusion=arm.exclusion)


def _differences(comparison: Comparison, values: Sequence[float | None], exact: bool) -> Iterator[Cell]:
    """Treatment minus control, in points where the values are shares."""
    shown = "{:+.10g}" if exact else ("{:+.1f}" if comparison.is_share else "{:+.4g}")
    factor = 100 if comparison.is_share else 1
    control, *others = values
    texts = ["" if each is None or control is None else shown.format(factor * (each - control)) for each in others]
    exclusions = comparison.difference_exclusions()
    return (Cell(text, exclusion=exclusion) for text, exclusion in zip(texts, exclusions, strict=True))


def _changes(comparison: Comparison, texts: Sequence[str]) -> Iterator[Cell]:
    """A change in speed for each treatment, excluded where either arm is; how it was evaluated says nothing of it."""
    for arm, text in zip(comparison.treatments, texts, strict=True):
        yield Cell(text, exclusion=arm.exclusion or comparison.control.exclusion)
