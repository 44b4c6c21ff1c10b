"""Several scripts as one command: each has its own arguments, output and exit code, whatever the others do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.hosts import Completed, LocalTransport
from rlx.hosts.script_parts import ScriptPart, run_parts


def run(*parts: ScriptPart) -> list[Completed]:
    return run_parts(LocalTransport(), parts, 20)


def test_each_part_is_a_script_of_its_own() -> None:
    first, second, third = run(
        ScriptPart(
            b"name=x\nset -u\ncd /\nprintf '%s' \"$0\" >&2\nsay() { cat; exit 3; }\nsay <<'end'\none $HOME `id`\nend"
        ),
        ScriptPart(b'printf "%s" "$1${name-}$PWD$undefined"', ("it's",)),
        ScriptPart(b"printf '\\0\\377'\n"),
    )
    assert first == Completed(3, b"one $HOME `id`\n", b"sh")
    assert second.code == 0 and second.out.startswith(b"it's/") and second.out != b"it's/"
    assert third == Completed(0, b"\0\xff", b"")


@settings(max_examples=10, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=4))
def test_arguments_come_as_they_are(words: list[str]) -> None:
    script = b'[ $# -eq 0 ] || printf "%s\\0" "$@"'
    said = "".join(f"{word}\0" for word in words).encode()
    assert [done.out for done in run(ScriptPart(script, tuple(words)), ScriptPart(script, tuple(words)))] == [
        said,
        said,
    ]


@pytest.mark.parametrize("signal", ["KILL", "TERM"])
def test_what_never_ended_has_no_success(signal: str) -> None:
    kill = f"echo half; kill -s {signal} $$; sleep 9".encode()
    whole, cut, never = run(ScriptPart(b"echo up"), ScriptPart(kill), ScriptPart(b"echo no"))
    assert whole == Completed(0, b"up\n", b"")
    assert cut.code != 0 and never.code != 0 and never.out == b""
