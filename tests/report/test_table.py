"""One table in all four forms: none of them loses a mark, and none obeys what a cell says."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser

import pytest
from rich.console import Console
from rich.theme import Theme

from rlx.cli.frame.output import console
from rlx.cli.text.series_text import Series, series_lines
from rlx.cli.text.table_text import EXCLUDED, fits, fitted, plain_table_lines, table_lines
from rlx.report.page import templates
from rlx.table import Cell, Cells, Column, Table, marked, table_of_rows, to_csv, to_markdown

HOSTILE = "a|b *c* <img> [d](e) \x1b[31m\x07\u202e"
SMALL = Table(
    [
        Column("step", ["20", "peak", "=cmd()"], right=True),
        Column(
            "基线 | *",
            [
                Cell("0.81", "0.78 to 0.84", style="green"),
                Cell("0.90", "at 20", "invalid"),
                Cell(HOSTILE, differs=True),
            ],
            right=True,
        ),
        Column("note", ["中文", "", "two\nlines"], rank=1),
    ],
    caption="score | by step",
    more=3,
)


def printed(table: Table, width: int, *, styles: bool = False) -> str:
    file = io.StringIO()
    out = Console(file=file, width=width, force_terminal=styles, theme=Theme({EXCLUDED: "strike"}))
    out.print(fitted(table, width))
    return file.getvalue()


def test_markdown_marks_what_is_excluded_and_obeys_no_cell() -> None:
    assert to_markdown(SMALL).splitlines() == [
        "**score \\| by step**",
        "",
        "| step | 基线 \\| \\* | note |",
        "| ---: | ---: | --- |",
        "| 20 | 0.81  0.78 to 0.84 | 中文 |",
        "| peak | ~~0.90~~ (invalid) |  |",
        "| =cmd() | ≠ a\\|b \\*c\\* &lt;img> \\[d\\](e) �\\[31m�� | two lines |",
        "",
        "and 3 more",
    ]


def test_csv_keeps_marks_and_is_no_formula() -> None:
    assert list(csv.reader(io.StringIO(to_csv(SMALL)))) == [
        ["step", "基线 | *", "note"],
        ["20", "0.81  0.78 to 0.84", "中文"],
        ["peak", "0.90 (invalid)", ""],
        ["'=cmd()", "≠ a|b *c* <img> [d](e) �[31m��", "two\nlines"],
    ]


@pytest.mark.parametrize(
    ("text", "cell"),
    [("=cmd()", "'=cmd()"), ("@a", "'@a"), ("-0.5", "-0.5"), ("+1e-3", "+1e-3"), ("-a", "'-a"), ("aqn", "aqn")],
)
def test_no_cell_of_csv_is_a_formula(text: str, cell: str) -> None:
    assert to_csv(table_of_rows([text], [[text]])) == f"{cell}\n{cell}\n"


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(".".join([tag, *(value for name, value in attrs if name == "class" and value)]))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().partition(".")[0] == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1], data))


def test_the_page_strikes_what_is_excluded_and_obeys_no_cell() -> None:
    text = templates().from_string('{% from "table.html.j2" import table %}{{ table(it) }}').render(it=SMALL)
    found = Elements(text)
    assert found.open == []
    assert found.texts[:4] == [("caption", "score | by step"), ("th", "step"), ("bdi", "基线 | *"), ("bdi", "note")]
    assert [each for each in found.texts if each[0] in ("s", "small", "span.word", "p.aside")] == [
        ("small", "0.78 to 0.84"),
        ("s", "0.90"),
        ("span.word", "(invalid)"),
        ("p.aside", "and 3 more"),
    ]
    assert text.count('<td class="differs">') == 1 and ("bdi", "a|b *c* <img> [d](e) �[31m��") in found.texts


def test_a_terminal_aligns_by_cells_and_strikes_the_number_alone() -> None:
    values: Cells = ["0.8", Cell("0.90", "at 20", "invalid")]
    table = Table([Column("步", ["20", "step 40"]), Column("基线", values, right=True)])
    assert printed(table, 80).splitlines() == [
        "步                 基线",
        "20                  0.8",
        "step 40  0.90 (invalid)",
    ]
    assert "\x1b[9m0.90\x1b[0m (invalid)" in printed(table, 80, styles=True)


def test_marks_go_below_before_a_column_goes_and_rank_0_stays() -> None:
    value = Column("value", [Cell("0.9000 @20", exclusion="incomplete")])
    table = Table([Column("arm", ["aqn"]), value, Column("tags", ["long-tag"], rank=1)])
    assert [line.split() for line in printed(table, 40).splitlines()] == [
        ["arm", "value", "tags"],
        ["aqn", "0.9000", "@20", "(incomplete)", "long-tag"],
    ]
    below = [line.rstrip() for line in printed(table, 27).splitlines()]
    assert below == ["arm  value         tags", "aqn  0.9000 @20    long-tag", "     (incomplete)"]
    assert printed(table, 20).split() == ["arm", "value", "aqn", "0.9000", "@20", "(incomplete)"]
    assert (fits(table, 27), fits(table, 26)) == (True, False)


def test_headings_and_cells_of_a_terminal_are_no_markup() -> None:
    text = printed(Table([Column("[red]a[/red]", ["[bold]b"])], "[dim]c", more=2), 40)
    assert text.split("\n")[:4] == ["[dim]c", "[red]a[/red]", "[bold]b     ", "and 2 more"]


def test_lines_are_as_wide_as_they_are() -> None:
    table = Table([Column("step", ["1", "20"], right=True), Column("臂", ["aqn", ""])], more=4)
    assert list(plain_table_lines(table, indent=2)) == ["  step  臂", "     1  aqn", "    20", "  and 4 more"]
    assert list(plain_table_lines(table_of_rows(["", ""], [["a", "b"], ["中文", "c"]]))) == ["a     b", "中文  c"]


def test_lines_strike_the_number_alone() -> None:
    cells = [Cell("0.9", exclusion="invalid"), Cell("", exclusion="invalid"), Cell("0.8", exclusion="x", differs=True)]
    _, *lines = table_lines(Table([Column("a", ["x", "y", "z"]), Column("b", cells, right=True)]))
    struck = [[line.plain[span.start : span.end] for span in line.spans] for line in lines]
    assert struck == [["0.9"], [], ["0.8"]] and lines[0].plain == "x  0.9 (invalid)"


@pytest.mark.parametrize(("no_color", "struck"), [("", True), ("1", False)])
def test_the_console_strikes_unless_it_has_no_styles(
    no_color: str, struck: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    assert bool(console().get_style(EXCLUDED).strike) == struck


def test_empty_tables_keep_their_headings() -> None:
    table = table_of_rows(["a", "b"], [])
    assert to_csv(table) == "a,b\n" and to_markdown(table) == "| a | b |\n| --- | --- |\n"
    assert list(plain_table_lines(table)) == ["a  b"]


def test_only_a_value_is_marked() -> None:
    assert (marked("0.5", "invalid"), marked("", "invalid"), marked("0.5", "")) == ("0.5 (invalid)", "", "0.5")


def test_values_of_metrics_are_aligned_by_cells_over_all_metrics() -> None:
    series = [Series("a", "基线", {1: 0.5, 20: 2.0}, "invalid"), Series("b", "long-arm", {1: 1.0})]
    assert [line for line in series_lines(series, 80) if "step" in line or line[:6].strip().isdigit()] == [
        "  step  arm       value",
        "     1  基线        0.5 (invalid)",
        "    20  基线          2 (invalid)",
        "  step  arm       value",
        "     1  long-arm      1",
    ]
