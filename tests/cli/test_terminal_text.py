"""A log may hold anything; the terminal sees text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.terminal_text import printable, printable_lines


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"\x1b[36m(TaskRunner pid=1)\x1b[0m step:1 - a:1", ["(TaskRunner pid=1) step:1 - a:1"]),
        (b"\rProgress:  3%\rProgress:  7%", ["Progress:  3%", "Progress:  7%"]),
        (b"a\x1b]0;owned\x07b", ["ab"]),
        (b"a\x1b]52;c;cm0gLXJm\x1b\\b", ["ab"]),
        (b"a\x1bPq#1\x1b\\b", ["ab"]),
        (
            b"bell \x07 back \x08 c1 \xc2\x9b31m",
            ["bell \N{REPLACEMENT CHARACTER} back \N{REPLACEMENT CHARACTER} c1 \N{REPLACEMENT CHARACTER}31m"],
        ),
        (b"tab\tstays \xe2\x96\x88", ["tab\tstays █"]),
        (b"\xff\xfe", ["\N{REPLACEMENT CHARACTER}" * 2]),
        (b"", [""]),
    ],
)
def test_what_a_line_shows(line: bytes, shown: list[str]) -> None:
    assert printable_lines(line) == shown


@given(st.binary(max_size=200))
def test_no_control_character_gets_through(line: bytes) -> None:
    for text in printable_lines(line):
        assert not [c for c in text if (ord(c) < 32 and c != "\t") or 0x7F <= ord(c) <= 0x9F]


def test_text_of_others_keeps_its_lines_and_nothing_that_a_terminal_obeys() -> None:
    assert printable("a\tb\nc\x1b[2J\r\x9b\u202e\ud800é") == "a\tb\nc�[2J����é"
