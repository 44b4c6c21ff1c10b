from __future__ import annotations

import io
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.evidence.reading.console import ConsoleParser
from rlx.evidence.reading.scan import MAX_LINE_BYTES, LineScanner, matching_lines


def lines(text: bytes, *needles: bytes, last_line_complete: bool = True) -> list[bytes]:
    return list(matching_lines(io.BytesIO(text), needles, last_line_complete=last_line_complete))


def test_only_lines_with_a_needle_each_once_in_order() -> None:
    assert lines(b"a x\nb\ny c x\rx\r\n\nd", b"x", b"y") == [b"a x", b"y c x", b"x"]


def test_the_last_line_may_be_half_written() -> None:
    assert lines(b"x1\nx2", b"x", last_line_complete=False) == [b"x1"]


@settings(deadline=None)
@given(st.lists(st.text("ax\r\n ", max_size=6).map(str.encode), max_size=20))
def test_pieces_of_any_size_give_the_lines_of_the_whole(pieces: list[bytes]) -> None:
    scanner = LineScanner((b"x",))
    found = [line for piece in pieces for line, _ in scanner.feed(piece)] + [line for line, _ in scanner.finish()]
    whole = b"".join(pieces).replace(b"\r", b"\n").split(b"\n")
    assert found == [line for line in whole if b"x" in line]


@pytest.mark.parametrize("filler", [b"y", b"junk " * 9000 + b"timing_s/step:3 - a:1 "], ids=["one word", "words"])
def test_an_endless_line_takes_constant_memory_and_hides_nothing(filler: bytes) -> None:
    parser = ConsoleParser()
    megabyte = (filler * ((1 << 20) // len(filler) + 1))[: 1 << 20]
    tracemalloc.start()
    for _ in range(40):
        parser.feed(megabyte)
    parser.feed(b" step:4 - a:1\nstep:5 - a:2\n")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert parser.timeline.steps == {4: {"a": 1}, 5: {"a": 2}}
    assert peak < 8 * MAX_LINE_BYTES
