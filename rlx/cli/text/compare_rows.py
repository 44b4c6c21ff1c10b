"""The table of a comparison: a row a validated step, a column an arm, and for CSV one a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlx.cli.text.pace_text import pace_rows
from rlx.evidence import VerdictStatus

if TYPE_CHECKING:
    from rlx.compare import ComparedArm, ComparedRun, Comparison


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the table; `struck` is the word that says why its number is no result."""

    text: str
    struck: str = ""

    @property
    def marked(self) -> str:
        return f"~~{self.text}~~ ({self.struck})" if self.struck and self.text else self.text


def header(comparison: Comparison) -> list[str]:
    """Each arm with its verdict unless that is `valid`: the word must be seen before the number."""
    return ["step", *(_title(arm, "mean ± sd") for arm in comparison.arms), *_difference_titles(comparison)]


def exact_header(comparison: Comparison) -> list[str]:
    columns = [name for arm in comparison.arms for name in (_title(arm, "mean"), *_spread_titles(arm))]
    return ["step", *columns, *_difference_titles(comparison)]


def _spread_titles(arm: ComparedArm) -> list[str]:
    """Title what an arm of several runs has beside its mean: their standard deviation, and each run."""
    return [f"{arm.label} sd", *(run.label for run in arm.runs)] if len(arm.runs) > 1 else []


def _difference_titles(comparison: Comparison) -> list[str]:
    unit = " (points)" if comparison.is_share else ""
    return [f"{arm.label} - {comparison.control.label}{unit}" for arm in comparison.treatments]


def _title(arm: ComparedArm, value: str) -> str:
    """`aqn`, `aqn (invalid)`; of several runs what their value is: `aqn (mean of 3)`, `aqn (mean of 3, 1 invalid)`."""
    words = Counter(word for run in arm.runs if (word := _word(run)) != VerdictStatus.VALID.value)
    if len(arm.runs) == 1:
        return " ".join([arm.label, *(f"({word})" for word in words)])
    notes = [f"{value} of {len(arm.runs)}", *(f"{count} {word}" for word, count in words.items())]
    return f"{arm.label} ({', '.join(notes)})"


def _word(run: ComparedRun) -> str:
    """The verdict; a run that goes on cannot be incomplete yet, so its state stands instead."""
    open_end = not run.finished and not run.struck
    return run.state.value if open_end else run.verdict.word


def rows(comparison: Comparison) -> Iterator[list[Cell]]:
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


def exact_rows(comparison: Comparison) -> Iterator[list[Cell]]:
    for row in comparison.steps:
        cells = [
            cell
            for arm, value in zip(comparison.arms, row.values, strict=True)
            for cell in _exact_cells(arm, row.step, value)
        ]
        yield [Cell(str(row.step)), *cells, *_differences(comparison, row.values, exact=True)]


def _exact_cells(arm: ComparedArm, step: int, value: float | None) -> list[Cell]:
    """The mean of the arm; where it has several runs their standard deviation and the value of each, too."""
    together = [_cell(arm, _exact(each)) for each in (value, arm.spread.get(step))]
    alone = [Cell(_exact(run.series.get(step)), run.verdict.word if run.struck else "") for run in arm.runs]
    return [*together, *alone] if len(arm.runs) > 1 else together[:1]


def _exact(value: float | None) -> str:
    return "" if value is None else repr(value)


def _cell(arm: ComparedArm, text: str) -> Cell:
    return Cell(text, _struck(arm))


def _struck(arm: ComparedArm) -> str:
    return next((run.verdict.word for run in arm.runs if run.struck), "")


def _differences(comparison: Comparison, values: Sequence[float | None], exact: bool) -> Iterator[Cell]:
    """Treatment minus control, in points where the values are shares."""
    shown = "{:+.10g}" if exact else ("{:+.1f}" if comparison.is_share else "{:+.4g}")
    factor = 100 if comparison.is_share else 1
    control, *others = values
    texts = ["" if each is None or control is None else shown.format(factor * (each - control)) for each in others]
    return _changes(comparison, texts, of_values=True)


def _changes(comparison: Comparison, texts: Sequence[str], of_values: bool = False) -> Iterator[Cell]:
    """A text for each treatment against the control, struck where either arm is, or the values may not be compared."""
    for arm, contrast, text in zip(comparison.treatments, comparison.contrasts, texts, strict=True):
        objection = contrast.objection if of_values else ""
        yield Cell(text, _struck(arm) or _struck(comparison.control) or objection)
