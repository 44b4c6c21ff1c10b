"""A comparison as terminal table, Markdown or CSV. What may not be reported is marked in each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rlx.cli.text.compare_lines import answer_lines, lines
from rlx.cli.text.compare_rows import exact_values, values_by_step
from rlx.markdown import prose
from rlx.table import to_csv, to_markdown
from rlx.terminal_text import printable

if TYPE_CHECKING:
    from rlx.compare import Comparison


def csv_text(comparison: Comparison) -> str:
    """One line a step: values as the log has them, and the verdicts in columns of their own."""
    return to_csv(exact_values(comparison))


def markdown_text(comparison: Comparison) -> str:
    """A table and a list, ready for a pull request."""
    answer, items = _items(answer_lines(comparison)), _items(lines(comparison))
    title = f"**{prose(' '.join(comparison.metric.split()))}**"
    return printable(f"{answer.lstrip()}\n{title}\n\n{to_markdown(values_by_step(comparison))}{items}\n")


def print_terminal(comparison: Comparison) -> None:
    """First the answer, then the table.

    Excluded numbers are marked in words, and struck through as well where the terminal has styles.
    """
    from rich.text import Text

    from rlx.cli.frame.output import console, print_text
    from rlx.cli.text.table_text import table_lines

    for line in answer_lines(comparison):
        print_text(line)
    print()
    out = console()
    out.print(Text(comparison.metric, "bold"), soft_wrap=True)
    for row in table_lines(values_by_step(comparison), indent=2):
        out.print(row, soft_wrap=True)
    for line in lines(comparison):
        print_text(line if line.startswith(" ") else f"\n{line}")


def _items(lines: Iterable[str]) -> str:
    return "\n".join(f"{'' if line.startswith(' ') else chr(10)}{_bullet(prose(line))}" for line in lines if line)


def _bullet(line: str) -> str:
    return f"- {line.strip()}" if line.startswith(" ") else f"{line}\n"
