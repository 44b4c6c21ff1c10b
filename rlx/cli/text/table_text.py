"""Write a table for a terminal: fitted into its width, or as lines of text that may be longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from rlx.table import DIFFERS, Cell, Column, Table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

EXCLUDED = "rlx.excluded"
"""The style of excluded numbers; `console` says what it looks like."""
_GAP = 2


def fitted(table: Table, width: int) -> RenderableType:
    """Lay the table out in `width` cells, under its caption: the least important columns go first, no name is cut.

    Before any column goes, marks and asides go below their numbers. Where even the columns of rank 0 do not fit, their
    text goes on in the next line.
    """
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    below = not _fits(table, width, below=False)
    columns = _shown_columns(table.columns, width, below)
    # Text: what others wrote is no markup.
    caption = Text(table.caption) if table.caption else None
    drawn = RichTable(
        title=caption, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, _GAP, 0, 0)
    )
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.right else "left"
        drawn.add_column(Text(column.heading), no_wrap=not column.flows, overflow="fold", justify=justify)
    for row in Table(columns).rows:
        drawn.add_row(*(_text(cell, below) for cell in row))
    return Group(drawn, Text(f"and {table.more} more")) if table.more else drawn


def fits(table: Table, width: int) -> bool:
    """Tell whether all columns have room in `width` cells."""
    return _fits(table, width, below=False) or _fits(table, width, below=True)


def table_lines(table: Table, indent: int = 0) -> Iterator[Text]:
    """Yield the headings and each row as one text, as wide as they are: a hundred arms have twenty thousand cells."""
    from rich.text import Text

    for line, excluded in _lines(table, indent):
        text = Text(line)
        for start, end in excluded:
            text.stylize(EXCLUDED, start, end)
        yield text


def plain_table_lines(table: Table, indent: int = 0) -> Iterator[str]:
    """Yield the same lines without styles."""
    return (line for line, _ in _lines(table, indent))


def _lines(table: Table, indent: int) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Yield each line with the ranges of its excluded numbers. A table without headings has no line of them."""
    from rich.cells import cell_len

    headings = [tuple(map(Cell, table.headings))] if any(table.headings) else []
    rows = [[(cell, cell.plain()) for cell in row] for row in (*headings, *table.rows)]
    widths = [max(cell_len(plain) for _, plain in column) for column in zip(*rows, strict=True)]
    for row in rows:
        line, excluded = " " * indent, []
        for (cell, plain), width, column in zip(row, widths, table.columns, strict=True):
            space = " " * (width - cell_len(plain) + _GAP)
            if cell.is_excluded:
                start = len(line) + column.right * (len(space) - _GAP) + cell.differs * len(DIFFERS)
                excluded.append((start, start + len(cell.text)))
            line += f"{space[_GAP:]}{plain}{' ' * _GAP}" if column.right else f"{plain}{space}"
        yield line.rstrip(), excluded
    if table.more:
        yield f"{' ' * indent}and {table.more} more", []


def _text(cell: Cell, below: bool) -> Text:
    from rich.text import Text

    style = EXCLUDED if cell.is_excluded else cell.style
    if cell.is_simple:
        return Text(cell.text, style)
    differs = DIFFERS if cell.differs else ""
    return Text.assemble(differs, (cell.text, style), cell.gap(below), (cell.remark, cell.aside_style))


def _shown_columns(columns: Sequence[Column], width: int, below: bool) -> list[Column]:
    shown = list(columns)
    while not _fits(Table(shown), width, below) and any(column.rank for column in shown):
        shown.remove(max(shown, key=lambda column: column.rank))
    return shown


def _fits(table: Table, width: int, below: bool) -> bool:
    return sum(_column_width(column, below) + _GAP for column in table.columns) - _GAP <= width


def _column_width(column: Column, below: bool) -> int:
    """Count the cells it needs: the longest text; of one that flows, its longest word."""
    from rich.cells import cell_len

    texts = [column.heading, *(cell if isinstance(cell, str) else cell.plain(below) for cell in column.cells)]
    parts = (part for text in texts for part in (text.split() if column.flows else text.split("\n")))
    return max(map(cell_len, parts), default=0)
