"""A comparison as terminal table, Markdown or CSV. What may not be reported is marked in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rlx.cli.text.compare_lines import lines
from rlx.cli.text.compare_rows import Cell, exact_header, exact_rows, header, rows
from rlx.cli.text.markdown import prose
from rlx.cli.text.terminal_text import printable

if TYPE_CHECKING:
    from rlx.compare import Comparison


def csv_text(comparison: Comparison) -> str:
    """One line a step: values as the log has them, and the verdicts in columns of their own."""
    from rlx.cli.text.csv_rows import csv_rows

    return csv_rows([exact_header(comparison), *exact_rows(comparison)])


def markdown_text(comparison: Comparison) -> str:
    """A table and a list, ready for a pull request."""
    texts = [header(comparison), ["---:" for _ in header(comparison)]]
    texts += [[cell.markdown for cell in row] for row in rows(comparison)]
    table = "\n".join(f"| {' | '.join(prose(text).replace('|', chr(92) + '|') for text in row)} |" for row in texts)
    items = "\n".join(f"{'' if line.startswith(' ') else chr(10)}{_bullet(prose(line))}" for line in lines(comparison))
    return printable(f"**{prose(' '.join(comparison.metric.split()))}**\n\n{table}\n{items}\n")


def print_terminal(comparison: Comparison) -> None:
    """Excluded numbers are marked in words, and struck through as well where the terminal has styles."""
    from rich.cells import cell_len
    from rich.text import Text

    from rlx.cli.frame.output import console

    out = console()
    out.print(Text(comparison.metric, "bold"), soft_wrap=True)
    cells = [[Cell(name) for name in header(comparison)], *rows(comparison)]
    widths = [max(cell_len(cell.marked) for cell in column) for column in zip(*cells, strict=True)]
    for row in cells:
        out.print(_line(row, widths, "" if out.no_color else "strike dim"), soft_wrap=True)
    for line in lines(comparison):
        out.print(Text(line if line.startswith(" ") else f"\n{line}"), soft_wrap=True)


def _line(row: Sequence[Cell], widths: Sequence[int], excluded: str) -> Any:
    """One text for all cells: a hundred arms have twenty thousand. `excluded`: the style of excluded numbers."""
    from rich.cells import cell_len
    from rich.text import Text

    line, struck = "", []
    for cell, width in zip(row, widths, strict=True):
        start = len(line) + 2 + width - cell_len(cell.marked)
        line = f"{line:<{start}}{cell.marked}"
        if cell.exclusion:
            struck.append((start, start + len(cell.text)))
    shown = Text(line)
    for start, end in struck:
        shown.stylize(excluded, start, end)
    return shown


def _bullet(line: str) -> str:
    return f"- {line.strip()}" if line.startswith(" ") else f"{line}\n"
