"""Arguments survive every shell between rlx and the program, byte for byte."""

from __future__ import annotations

import os

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlx.hosts import LocalTransport
from rlx.model import Cmd

# Any bytes but NUL, as Python holds them: what is no UTF-8 becomes surrogates.
arguments = st.lists(st.binary(max_size=60).map(lambda data: os.fsdecode(data.replace(b"\0", b""))), max_size=4)
PRINT = 'printf "%s\\0" "$@"'


def received(cmd: Cmd) -> list[bytes]:
    completed = LocalTransport().run(cmd, timeout_s=30)
    assert (completed.code, completed.err) == (0, b"")
    return completed.out.split(b"\0")[:-1]


@pytest.mark.parametrize("shell", ["sh", "bash", "dash"])
@pytest.mark.parametrize("layers", [0, 1, 3])
@given(words=arguments)
@example(
    words=["-n", "--", "", "it's", '"$(id)"', "`id`", "a\nb", "\\", "*", "ünïcödé", "\udcff", "~", "${HOME}", "\x81"]
)
@settings(max_examples=12, deadline=None)
def test_any_argument_survives_nested_shells(shell: str, layers: int, words: list[str]) -> None:
    cmd = Cmd("sh", "-c", PRINT, "print", "first", *words)
    for _ in range(layers):
        cmd = Cmd(shell, "-c", cmd)
    assert received(cmd) == [os.fsencode(word) for word in ("first", *words)]


def test_a_long_argument_survives() -> None:
    long = "x'y" * 30_000
    assert received(Cmd("sh", "-c", PRINT, "print", long)) == [long.encode()]
