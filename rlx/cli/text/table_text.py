"""Tables and paragraphs for a terminal: fitted into its width, or as lines of text that may be longer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from rlx.cli.frame.streams import severity_styles, wrapped
from rlx.table import DIFFERS, Cell, Column, Table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

EXCLUDED = "rlx.excluded"
"""The style of excluded numbers; `console` defines it."""
_GAP = 2


def fitted(table: Table, width: int) -> RenderableType:
    """Lay the table out in `width` cells, under its caption: the least important columns go first, no name is cut.

    Before any column goes, marks and asides go below their numbers. Where even the columns of rank 0 do not fit, each
    row becomes a list of its cells.
    """
    from rich.console import Group

    below = not _fits(table, width, below=False)
    columns = _shown_columns(table.columns, width, below)
    parts: list[RenderableType] = [paragraph(table.caption, width, "bold")] if table.caption else []
    if _fits(Table(columns), width, below):
        parts.append(_grid(columns, below))
    else:
        parts += _lists(table, width)
    return Group(*parts, *([paragraph(f"and {table.more} more", width)] if table.more else []))


def paragraph(text: str, width: int, style: str = "") -> Text:
    """Return text that rich prints in `width` cells, broken between words only, with coloured severities."""
    from rich.text import Text

    shown = Text("\n".join(wrapped(line, width) for line in text.split("\n")), style, overflow="ignore")
    for colour, start, end in severity_styles(shown.plain):
        shown.stylize(colour, start, end)
    return shown


def _grid(columns: Sequence[Column], below: bool) -> RenderableType:
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.right else "left"
        # Text: what others wrote is no markup.
        drawn.add_column(Text(column.heading), no_wrap=not column.flows, justify=justify)
    for row in Table(columns).rows:
        drawn.add_row(*(_text(cell, below) for cell in row))
    return drawn


def _lists(table: Table, width: int) -> Iterator[Text]:
    """Yield for each row its first cell, and below it the others with their headings."""
    for name, *cells in table.rows:
        yield paragraph(name.plain(), width)
        for heading, cell in zip(table.headings[1:], cells, strict=True):
            if cell.text:
                yield paragraph(f"  {heading}: {cell.plain()}", width)


def fits(table: Table, width: int, *, below: bool = True) -> bool:
    """Tell whether all columns have room in `width` cells, with `below` also where marks go below their numbers."""
    return _fits(table, width, below=False) or (below and _fits(table, width, below=True))


def parts_within(table: Table, width: int) -> Iterator[Table]:
    """Yield the table in parts of at most `width` cells as lines, each with the first column, which names the rows."""
    first, *others = table.columns
    part: list[Column] = []
    for column in others:
        if part and not _fits(Table([first, *part, column]), width, below=False):
            yield Table([first, *part])
            part = []
        part.append(column)
    yield Table([first, *part])


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
