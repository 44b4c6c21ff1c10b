"""One comparison in every form for people, rendered without starting a command for each."""

from __future__ import annotations

import re
from pathlib import Path

from rlx.api.judged_comparison import Compared
from rlx.api.reporting import write_page
from rlx.api.runs import open_index
from rlx.cli.text.compare_text import answer_lines, csv_text, left_out_lines, lines, markdown_text, registered_words


def timeless(text: str) -> str:
    """Return the text with one word for every moment, and for the user who did something then."""
    return re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\dZ| UTC)( by [^\s:]+)?", "<moment>", text)


def forms_of(compared: Compared, page: Path) -> list[str]:
    """Return the lines of the terminal, Markdown, CSV with its notes, and the page, which is written to `page`."""
    comparison = compared.comparison
    write_page(page, open_index(), compared, ())
    notes = [*registered_words(comparison), *left_out_lines(comparison)]
    csv = csv_text(comparison) + "\n".join(notes)
    terminal = "\n".join((*answer_lines(comparison), *lines(comparison)))
    return [terminal, markdown_text(comparison), csv, page.read_text(encoding="utf-8")]
