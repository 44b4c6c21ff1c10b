"""A comparison as terminal table, Markdown, CSV or JSON. What may not be reported is struck through in each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlx.compare.findings import brief
from rlx.evidence import VerdictStatus
from rlx.plan import Finding, Severity, to_jsonable

if TYPE_CHECKING:
    from rlx.compare import ComparedRun, Comparison, Contrast


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
        "interim": comparison.interim,
        "reportable": comparison.reportable,
        "verified": comparison.verified,
    }


def csv_text(comparison: Comparison) -> str:
    """One line a step, values as the log has them."""
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_header(comparison))
    writer.writerows([cell.marked for cell in row] for row in _step_rows(comparison, exact=True))
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
    """Each run with its verdict unless that is `valid`: the word must be seen before the number."""
    unit = " (points)" if comparison.is_share else ""
    differences = [f"{run.label} - {comparison.control.label}{unit}" for run in comparison.treatments]
    return ["step", *(_title(run) for run in comparison.runs), *differences]


def _title(run: ComparedRun) -> str:
    return run.label if run.verdict.status is VerdictStatus.VALID else f"{run.label} ({_word(run)})"


def _word(run: ComparedRun) -> str:
    """The verdict; a run that goes on cannot be incomplete yet, so its state stands instead."""
    open_end = not run.finished and not run.struck
    return run.state.value if open_end else run.verdict.status.value


def _all_rows(comparison: Comparison) -> Iterator[list[Cell]]:
    yield from _step_rows(comparison, exact=False)
    blanks = [Cell("") for _ in comparison.treatments]
    for name in ("peak", "final"):
        points = [(run, getattr(run, name)) for run in comparison.runs]
        cells = [_cell(run, f"{point.value:.4g} @ {point.step}" if point else "") for run, point in points]
        yield [Cell(name), *cells, *blanks]


def _step_rows(comparison: Comparison, exact: bool) -> Iterator[list[Cell]]:
    shown = repr if exact else ("{:.4f}" if comparison.is_share else "{:.6g}").format
    for row in comparison.steps:
        cells = [
            _cell(run, "" if value is None else shown(value))
            for run, value in zip(comparison.runs, row.values, strict=True)
        ]
        yield [Cell(str(row.step)), *cells, *_differences(comparison, row.values, exact)]


def _cell(run: ComparedRun, text: str) -> Cell:
    return Cell(text, run.verdict.status.value if run.struck else "")


def _differences(comparison: Comparison, values: Sequence[float | None], exact: bool) -> Iterator[Cell]:
    """Treatment minus control, in points where the values are shares; struck where either run is."""
    shown = "{:+.10g}" if exact else ("{:+.1f}" if comparison.is_share else "{:+.4g}")
    factor = 100 if comparison.is_share else 1
    control = values[0]
    for run, value in zip(comparison.treatments, values[1:], strict=True):
        struck = next((each.verdict.status.value for each in (run, comparison.control) if each.struck), "")
        text = "" if value is None or control is None else shown.format(factor * (value - control))
        yield Cell(text, struck)


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
    """Errors and warnings with their fixes, and what was waived; of a message that was said already, the fix alone."""
    for finding in findings:
        if finding.severity is Severity.NOTE and not finding.waived:
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
