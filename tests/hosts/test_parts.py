"""Several commands as one: each has its own input, output and exit code, whatever the others do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.hosts import Completed, LocalTransport
from rlx.hosts.parts import Part, run_parts
from rlx.plan import Cmd


def run(*parts: Part) -> list[Completed]:
    return run_parts(LocalTransport(), parts, 20)


def test_each_part_is_a_command_of_its_own() -> None:
    first, second, third = run(
        Part(Cmd("sh", "-c", "cat; echo said >&2; exit 3"), b"one $HOME `id`\n"),
        Part(Cmd("sh", "-s", "--", "it's"), b'printf "%s" "$1"; cat\n'),
        Part(Cmd("printf", "\\0\\377")),
    )
    assert first == Completed(3, b"one $HOME `id`\n", b"said\n")
    assert second == Completed(0, b"it's", b"")
    assert third == Completed(0, b"\0\xff", b"")


@settings(max_examples=10, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\0\n\r", exclude_categories=["Cs"])), max_size=4))
def test_lines_come_as_they_are(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines).encode()
    assert [done.out for done in run(Part(Cmd("cat"), text), Part(Cmd("wc", "-l"), text))] == [
        text,
        f"{len(lines)}\n".encode(),
    ]


@pytest.mark.parametrize("signal", ["KILL", "TERM"])
def test_what_never_ended_has_no_success(signal: str) -> None:
    whole, cut, never = run(
        Part(Cmd("echo", "up")), Part(Cmd("sh", "-c", f"echo half; kill -s {signal} $PPID")), Part(Cmd("echo", "no"))
    )
    assert whole == Completed(0, b"up\n", b"")
    assert cut.code != 0 and never.code != 0 and never.out == b""
