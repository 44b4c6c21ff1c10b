"""A comparison as terminal table, Markdown, CSV or JSON. What may not be reported is struck through in each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlx.cli.pace_text import pace_rows
from rlx.compare.findings import brief
from rlx.evidence import VerdictStatus
from rlx.plan import Finding, Severity, to_jsonable

if TYPE_CHECKING:
    from rlx.compare import ComparedArm, ComparedRun, Comparison, Contrast


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the table; `struck` is the word that says why its number is no result."""

    text: str
    struck: str = ""

    @property
    def marked(self) -> str:
        return f"~~{self.text}~~ ({self.struck})" if self.struck and self.text else self.text


def as_answer(comparison: Comparison) -> Mapping[str, Any]:
    """The whole comparison for `--json`; the values of a step stand in the order control, treatments."""
    return {
        **to_jsonable(comparison),
        "control": _arm_answer(comparison.control),
        "treatments": [_arm_answer(arm) for arm in comparison.treatments],
        "interim": comparison.interim,
        "reportable": comparison.reportable,
        "verified": comparison.verified,
    }


def _arm_answer(arm: ComparedArm) -> Mapping[str, Any]:
    """The arm with its runs; an arm of one run has the keys of the run, too, as when it could be nothing else."""
    single = to_jsonable(arm.runs[0]) if len(arm.runs) == 1 else {}
    return {**single, **to_jsonable(arm)}


def csv_text(comparison: Comparison) -> str:
    """One line a step, values as the log has them."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_exact_header(comparison))
    writer.writerows([cell.marked for cell in row] for row in _exact_rows(comparison))
    return text.getvalue()


def markdown_text(comparison: Comparison) -> str:
    """A table and a list, ready for a pull request."""
    rows = [_header(comparison), ["---:" for _ in _header(comparison)]]
    rows += [[cell.marked for cell in row] for row in _all_rows(comparison)]
    table = "\n".join(f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |" for row in rows)
    lines = "\n".join(f"{'' if line.startswith(' ') else chr(10)}{_bullet(line)}" for line in _lines(comparison))
    return f"**{comparison.metric}**\n\n{table}\n{lines}\n"


def print_terminal(comparison: Comparison) -> None:
    """Struck numbers are crossed out where the terminal has styles, and marked in words where it has none."""
    from rich.text import Text

    from rlx.cli.output import console

    out = console()
    styled = out.is_terminal and not out.no_color
    out.print(Text(comparison.metric, "bold"), soft_wrap=True)
    rows = [[Cell(name) for name in _header(comparison)], *_all_rows(comparison)]
    texts = [[_styled(cell) if styled else Text(cell.marked) for cell in row] for row in rows]
    widths = [max(text.cell_len for text in column) for column in zip(*texts, strict=True)]
    for row in texts:
        for text, width in zip(row, widths, strict=True):
            text.pad_left(width - text.cell_len)
        out.print(Text("  ").join([Text(""), *row]), soft_wrap=True)
    for line in _lines(comparison):
        out.print(Text(line if line.startswith(" ") else f"\n{line}"), soft_wrap=True)


def _styled(cell: Cell) -> Any:
    from rich.text import Text

    return Text.assemble((cell.text, "strike dim" if cell.struck else ""))


def _bullet(line: str) -> str:
    return f"- {line.strip()}" if line.startswith(" ") else f"{line}\n"


def _header(comparison: Comparison) -> list[str]:
    """Each arm with its verdict unless that is `valid`: the word must be seen before the number."""
    return ["step", *(_title(arm) for arm in comparison.arms), *_difference_titles(comparison)]


def _exact_header(comparison: Comparison) -> list[str]:
    columns = [name for arm in comparison.arms for name in (_title(arm), *_spread_titles(arm))]
    return ["step", *columns, *_difference_titles(comparison)]


def _spread_titles(arm: ComparedArm) -> list[str]:
    """What an arm of several runs has beside its mean: their standard deviation, and each run."""
    return [f"{arm.label} sd", *(run.label for run in arm.runs)] if len(arm.runs) > 1 else []


def _difference_titles(comparison: Comparison) -> list[str]:
    unit = " (points)" if comparison.is_share else ""
    return [f"{arm.label} - {comparison.control.label}{unit}" for arm in comparison.treatments]


def _title(arm: ComparedArm) -> str:
    """`aqn`, `aqn (invalid)`; of several runs `aqn (mean of 3)`, `aqn (aqn-s2 invalid)`."""
    words = [(run.label, _word(run)) for run in arm.runs if _word(run) != VerdictStatus.VALID.value]
    if len(arm.runs) == 1:
        return f"{arm.label} ({words[0][1]})" if words else arm.label
    notes = ", ".join(" ".join(each) for each in words) or f"mean of {len(arm.runs)}"
    return f"{arm.label} ({notes})"


def _word(run: ComparedRun) -> str:
    """The verdict; a run that goes on cannot be incomplete yet, so its state stands instead."""
    open_end = not run.finished and not run.struck
    return run.state.value if open_end else run.verdict.status.value


def _all_rows(comparison: Comparison) -> Iterator[list[Cell]]:
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
        yield [Cell(name), *map(Cell, texts), *map(Cell, changes)]


def _shown(comparison: Comparison, arm: ComparedArm, step: int, value: float | None) -> str:
    """`0.7058`, of several runs `0.7058 ± 0.0102`, or how many of them have a value."""
    number = ("{:.4f}" if comparison.is_share else "{:.6g}").format
    if value is None:
        have = sum(step in run.series for run in arm.runs)
        return f"{have} of {len(arm.runs)} seeds" if have else ""
    spread = arm.spread.get(step)
    return number(value) if spread is None else f"{number(value)} ± {number(spread)}"


def _exact_rows(comparison: Comparison) -> Iterator[list[Cell]]:
    for row in comparison.steps:
        cells = [
            cell
            for arm, value in zip(comparison.arms, row.values, strict=True)
            for cell in _exact_cells(arm, row.step, value)
        ]
        yield [Cell(str(row.step)), *cells, *_differences(comparison, row.values, exact=True)]


def _exact_cells(arm: ComparedArm, step: int, value: float | None) -> list[Cell]:
    """The mean of the arm; where it has several runs their standard deviation and the value of each, too."""
    several = [arm.spread.get(step), *(run.series.get(step) for run in arm.runs)] if len(arm.runs) > 1 else []
    return [_cell(arm, "" if each is None else repr(each)) for each in (value, *several)]


def _cell(arm: ComparedArm, text: str) -> Cell:
    return Cell(text, _struck(arm))


def _struck(arm: ComparedArm) -> str:
    return next((run.verdict.status.value for run in arm.runs if run.struck), "")


def _differences(comparison: Comparison, values: Sequence[float | None], exact: bool) -> Iterator[Cell]:
    """Treatment minus control, in points where the values are shares; struck where either arm is."""
    shown = "{:+.10g}" if exact else ("{:+.1f}" if comparison.is_share else "{:+.4g}")
    factor = 100 if comparison.is_share else 1
    control = values[0]
    for arm, value in zip(comparison.treatments, values[1:], strict=True):
        text = "" if value is None or control is None else shown.format(factor * (value - control))
        yield Cell(text, _struck(arm) or _struck(comparison.control))


def _lines(comparison: Comparison) -> Iterator[str]:
    """Headings start at the margin, what belongs to them is indented by two."""
    for run in comparison.runs:
        yield f"{run.label}: {run.verdict.status.value} · {run.state.value} · seed {run.seed} · {run.run_id}"
        yield f"  {run.verdict.sentence}"
        yield from _finding_lines(run.verdict.findings, said=run.verdict.sentence)
    for contrast in comparison.contrasts:
        yield f"{contrast.treatment} against {comparison.control.label}"
        yield from (f"  {sentence}" for sentence in contrast.sentences)
        yield f"  declared treatment: {_declared(contrast)}"
        yield from _finding_lines(contrast.findings, said=contrast.sentences[0])


def _finding_lines(findings: Sequence[Finding], said: str = "") -> Iterator[str]:
    """Errors and warnings with their fixes; of a finding whose message was said already, the fix alone."""
    for finding in findings:
        if finding.severity is Severity.NOTE:
            continue
        if finding.message not in said:
            yield f"  {finding.id} {finding.severity.value}: {finding.message}"
        if finding.fix:
            yield f"    fix: {finding.fix}"


def _declared(contrast: Contrast) -> str:
    declared = [item for item in contrast.differences if item.declared]
    return (
        "; ".join(f"{item.key}: {brief(item.control, 100)} → {brief(item.treatment, 100)}" for item in declared)
        or "none"
    )
