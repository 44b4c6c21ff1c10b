"""A table as a value, and its forms as Markdown and CSV; the page and the terminal write the same value themselves.

No form loses what a cell says: a number that may not be reported is marked with the word that excludes it, in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlx.markdown import prose
from rlx.terminal_text import printable

_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")
DIFFERS = "≠ "


def marked(text: str, exclusion: str) -> str:
    """Return a value with the word that excludes it: `0.8100 (incomplete)`; the value alone where no word does.

    The one mark of an excluded value in every output. A style may be added, since a copied text loses styles.
    """
    return f"{text} ({exclusion})" if text and exclusion else text


@dataclass(frozen=True, slots=True)
class Cell:
    """`exclusion` is the word that says why the number is no result; `aside` is shown smaller, and not of such a one.

    `differs`: it is not as in the other columns. `style` and `aside_style` are names of rich's styles.
    """

    text: str
    aside: str = ""
    exclusion: str = ""
    differs: bool = False
    style: str = ""
    aside_style: str = ""

    @property
    def is_simple(self) -> bool:
        """Tell whether its text is all that it says."""
        return not (self.exclusion or self.aside or self.differs)

    @property
    def is_excluded(self) -> bool:
        return bool(self.text and self.exclusion)

    @property
    def remark(self) -> str:
        """Return what stands behind the text: the mark of an excluded number, else the aside."""
        return f"({self.exclusion})" if self.is_excluded else self.aside

    def gap(self, below: bool = False) -> str:
        """Return what parts the text from its remark, which stands beside it or `below` it."""
        if not self.remark:
            return ""
        return "\n" if below else " " if self.is_excluded else "  "

    def plain(self, below: bool = False) -> str:
        """Return all of it as text without styles."""
        if self.is_simple:
            return self.text
        return f"{DIFFERS if self.differs else ''}{self.text}{self.gap(below)}{self.remark}"


Cells = Sequence[str | Cell]
"""Those of a row or a column; a text is a cell that says nothing else."""


@dataclass(frozen=True, slots=True)
class Column:
    """`rank`: where there is no room, columns of the highest go first; those of rank 0 stay.

    `flows`: its text may take several lines. `right`: its text ends at the right edge, as numbers do.
    """

    heading: str
    cells: Cells
    rank: int = 0
    flows: bool = False
    right: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of equally many cells; the first one names the rows. `more` counts the rows that were left out."""

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
    """Return rows of cells as a table whose columns are all alike."""
    cells = list(zip(*rows, strict=True)) or [()] * len(headings)
    columns = [Column(heading, own, 0, flows, right) for heading, own in zip(headings, cells, strict=True)]
    return Table(columns, caption, more)


def to_csv(table: Table) -> str:
    """Return a line of headings and one a row; what terminals and spreadsheets would obey is made harmless."""
    import csv
    import io

    text = io.StringIO()
    rows = zip(*(column.cells for column in table.columns), strict=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_no_formula(heading) for heading in table.headings])
    writer.writerows([_no_formula(cell if isinstance(cell, str) else cell.plain()) for cell in row] for row in rows)
    return printable(text.getvalue())


def _no_formula(text: str) -> str:
    """Write a cell that no spreadsheet computes: an apostrophe goes before what begins as a formula."""
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(_BEGINS_A_FORMULA) else text
    return text


def to_markdown(table: Table) -> str:
    """Return it as a table of GitHub's Markdown, excluded numbers struck through."""
    caption = f"**{_markdown_text(table.caption)}**\n\n" if table.caption else ""
    more = f"\nand {table.more} more\n" if table.more else ""
    return printable(f"{caption}{''.join(map(_markdown_row, _markdown_cells(table)))}{more}")


def _markdown_cells(table: Table) -> Iterator[list[str]]:
    yield list(map(_markdown_text, table.headings))
    yield ["---:" if column.right else "---" for column in table.columns]
    yield from (list(map(_markdown_cell, row)) for row in table.rows)


def _markdown_row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |\n"


def _markdown_cell(cell: Cell) -> str:
    text = f"~~{cell.text}~~" if cell.is_excluded else cell.text
    return _markdown_text(f"{DIFFERS if cell.differs else ''}{text}{cell.gap()}{cell.remark}")


def _markdown_text(text: str) -> str:
    """Escape what is Markdown in it; a cell of a table ends at a pipe and at the end of its line."""
    return " ".join(prose(text).replace("|", "\\|").splitlines())
