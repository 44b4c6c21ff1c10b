"""Hold a table as a value, and write it as Markdown and CSV; page and terminal write the same value.

Each form shows all that a cell holds: an excluded number carries the word of its verdict everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlx.markdown import prose
from rlx.terminal_text import printable

_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")
DIFFERS = "≠ "


def marked(text: str, exclusion: str) -> str:
    """Return an excluded value with the word that excludes it, `0.8100 (incomplete)`, and any other value alone.

    Every output marks excluded values in this way. A style may be added, but copied text loses its style.
    """
    return f"{text} ({exclusion})" if text and exclusion else text


@dataclass(frozen=True, slots=True)
class Cell:
    """Hold the text of a cell. `exclusion`: the word that says why the number is no result. `aside`: a smaller remark,
    which is not shown for an excluded number. `differs`: the value differs from those of the other columns.

    `style` and `aside_style` are names of rich's styles.
    """

    text: str
    aside: str = ""
    exclusion: str = ""
    differs: bool = False
    style: str = ""
    aside_style: str = ""

    @property
    def is_simple(self) -> bool:
        """Return whether the cell has nothing but its text."""
        return not (self.exclusion or self.aside or self.differs)

    @property
    def is_excluded(self) -> bool:
        return bool(self.text and self.exclusion)

    @property
    def remark(self) -> str:
        """Return what follows the text: the mark of an excluded number, else the aside."""
        return f"({self.exclusion})" if self.is_excluded else self.aside

    def gap(self, below: bool = False) -> str:
        """Return the separator between text and remark, which is beside the text or `below` it."""
        if not self.remark:
            return ""
        return "\n" if below else " " if self.is_excluded else "  "

    def plain(self, below: bool = False) -> str:
        """Return the whole cell as text without styles."""
        if self.is_simple:
            return self.text
        return f"{DIFFERS if self.differs else ''}{self.text}{self.gap(below)}{self.remark}"


Cells = Sequence[str | Cell]
"""The cells of a row or a column; a plain text is a cell without anything else."""


@dataclass(frozen=True, slots=True)
class Column:
    """Hold a column. `rank`: a narrow terminal leaves out columns of the highest rank first, those of rank 0 never.

    `flows`: its text may be wrapped. `right`: its text is aligned to the right, like numbers.
    """

    heading: str
    cells: Cells
    rank: int = 0
    flows: bool = False
    right: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Hold columns of equal length, the first of which names the rows. `more`: how many rows were left out."""

    columns: Sequence[Column]
    caption: str = ""
    more: int = 0

    @property
    def headings(self) -> list[str]:
        return [column.heading for column in self.columns]

    @property
    def rows(self) -> list[tuple[Cell, ...]]:
        return [
            tuple(Cell(cell) if isinstance(cell, str) else cell for cell in row)
            for row in zip(*(column.cells for column in self.columns), strict=True)
        ]


def table_of_rows(
    headings: Sequence[str],
    rows: Sequence[Cells],
    caption: str = "",
    more: int = 0,
    *,
    flows: bool = False,
    right: bool = False,
) -> Table:
    """Return a table of these rows; `flows` and `right` hold for all columns."""
    cells = list(zip(*rows, strict=True)) or [()] * len(headings)
    columns = [Column(heading, own, 0, flows, right) for heading, own in zip(headings, cells, strict=True)]
    return Table(columns, caption, more)


def to_csv(table: Table) -> str:
    """Return the table as CSV, with nothing in it that a terminal or a spreadsheet would execute."""
    import csv
    import io

    text = io.StringIO()
    rows = zip(*(column.cells for column in table.columns), strict=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_no_formula(heading) for heading in table.headings])
    writer.writerows([_no_formula(cell if isinstance(cell, str) else cell.plain()) for cell in row] for row in rows)
    return printable(text.getvalue())


def _no_formula(text: str) -> str:
    """Return the text, with an apostrophe before it if a spreadsheet would compute it as a formula."""
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(_BEGINS_A_FORMULA) else text
    return text


def to_markdown(table: Table) -> str:
    """Return the table in GitHub's Markdown, with excluded numbers crossed out."""
    caption = f"**{_markdown_text(table.caption)}**\n\n" if table.caption else ""
    more = f"\nand {table.more} more\n" if table.more else ""
    rows = [
        [_markdown_text(heading) for heading in table.headings],
        ["---:" if column.right else "---" for column in table.columns],
        *([_markdown_cell(cell) for cell in row] for row in table.rows),
    ]
    lines = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return printable(f"{caption}{lines}{more}")


def _markdown_cell(cell: Cell) -> str:
    text = f"~~{cell.text}~~" if cell.is_excluded else cell.text
    return _markdown_text(f"{DIFFERS if cell.differs else ''}{text}{cell.gap()}{cell.remark}")


def _markdown_text(text: str) -> str:
    """Escape a text for a cell of a Markdown table, which ends at a pipe and at the end of the line."""
    return " ".join(prose(text).replace("|", "\\|").splitlines())
