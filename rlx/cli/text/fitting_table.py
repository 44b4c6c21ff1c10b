"""Fit a table into the width of a terminal: the least important columns go first, and no name is ever cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_GAP = 2


class Column(NamedTuple):
    """`rank`: columns of the highest go first; those of rank 0 stay. `flows`: its text may take several lines."""

    heading: str
    cells: Sequence[str | Text]
    rank: int = 0
    flows: bool = False
    right: bool = False


def fitting_table(columns: Sequence[Column], width: int, **looks: Any) -> Table:
    """Lay out the columns that fit into `width` cells; `looks` are options of rich's Table.

    Where even those of rank 0 do not fit, their text goes on in the next line.
    """
    from rich.table import Table
    from rich.text import Text

    shown = _fitting(columns, width)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), **looks)
    for column in shown:
        table.add_column(
            column.heading, no_wrap=not column.flows, overflow="fold", justify="right" if column.right else "left"
        )
    for row in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def table_width(columns: Sequence[Column]) -> int:
    """Count the cells that all of these columns need."""
    return sum(_width(column) for column in columns) - _GAP


def _fitting(columns: Sequence[Column], width: int) -> list[Column]:
    shown = list(columns)
    while table_width(shown) > width and any(column.rank for column in shown):
        shown.remove(max(shown, key=lambda column: column.rank))
    return shown


def _width(column: Column) -> int:
    """Count the cells it needs: the longest text; of one that flows, its longest word."""
    from rich.cells import cell_len

    texts = [column.heading, *map(str, column.cells)]
    parts = (part for text in texts for part in (text.split() if column.flows else text.split("\n")))
    return max(map(cell_len, parts), default=0) + _GAP
