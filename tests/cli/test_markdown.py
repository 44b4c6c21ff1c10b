"""What a log says stays text in Markdown, CSV, JSON and on a terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.cli.frame.output import print_json
from rlx.markdown import block, code, prose
from rlx.report.safe_text import shown
from rlx.terminal_text import printable, printable_lines

DIRECTIONS = "\u061c\u200e\u200f\u202a\u202e\u2066\u2069"
TICKS = st.text("`ab \\", max_size=20)


@given(TICKS)
def test_no_text_ends_its_code(text: str) -> None:
    span = code(text)
    ticks = span[: len(span) - len(span.lstrip("`"))] if "`" in text else "`"
    assert text in span
    assert ticks not in text or "`" not in text


@given(st.lists(TICKS, max_size=4))
def test_no_line_ends_its_block(lines: list[str]) -> None:
    first, *inside, last = block(lines)
    assert first == f"{last}text" and not any(last in line for line in inside)


@pytest.mark.parametrize(
    "text", ["![x](http://evil/x.png)", "[a]: http://evil", "<img src=x>", "`code`", "\\[a](b)", "*a*", "&lt;b&gt;"]
)
def test_no_word_is_a_link_an_image_or_a_tag(text: str) -> None:
    plain = prose(text)
    bare = plain.replace("\\\\", "")
    for mark in "[]`*":
        assert bare.count(mark) == bare.count(f"\\{mark}")
    assert "<" not in plain


def test_nothing_turns_the_direction_of_writing_round(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": DIRECTIONS})
    told = capsys.readouterr().out
    assert json.loads(told)["a"] == DIRECTIONS
    for text in (told, printable(DIRECTIONS), *printable_lines(DIRECTIONS.encode()), shown(DIRECTIONS)):
        assert not set(text) & set(DIRECTIONS)
