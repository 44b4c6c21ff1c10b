"""Write rows as CSV that a spreadsheet only shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_BEGINS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_rows(rows: Iterable[Sequence[str]]) -> str:
    """Join rows of cells, quoted where needed; what terminals and spreadsheets would obey is made harmless."""
    import csv
    import io

    from rlx.cli.text.terminal_text import printable

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_no_formula(cell) for cell in row] for row in rows)
    return printable(text.getvalue())


def _no_formula(text: str) -> str:
    """Write a cell that no spreadsheet computes: an apostrophe goes before what begins as a formula."""
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(_BEGINS_A_FORMULA) else text
    return text
