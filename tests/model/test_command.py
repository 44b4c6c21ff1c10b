"""Cmd carries any argument through any number of shells, and never shows a secret."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.model import MASK, Cmd, Secret

ECHO = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(os.fsencode(a) for a in sys.argv[1:]))"
ARGUMENTS = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=200)


def through_shells(arguments: list[str], layers: int) -> list[str]:
    command = Cmd(sys.executable, "-S", "-c", ECHO, *arguments)
    for _ in range(layers):
        command = Cmd("sh", "-c", command)
    output = subprocess.run(command.argv(), check=True, capture_output=True).stdout
    return output.decode().split("\0")


@settings(max_examples=25, deadline=None)
@given(st.lists(ARGUMENTS, min_size=1, max_size=4), st.integers(0, 3))
def test_arguments_arrive_byte_for_byte(arguments: list[str], layers: int) -> None:
    assert through_shells(arguments, layers) == arguments


@pytest.mark.parametrize(
    "argument",
    ["", "-n", "--", "$(id)", "`id`", "a\nb", "it's", '"', "\\", "*", "~", "é 模型 🙂", "x" * 100_000],
)
def test_awkward_arguments_survive_two_shells(argument: str) -> None:
    # Four bytes a quote and layer: 100 KB stays under the kernel's limit of one argument.
    assert through_shells([argument], 2) == [argument]


def test_a_secret_runs_but_is_never_shown() -> None:
    command = Cmd("sh", "-c", Cmd("echo", Secret("hunter2")))
    assert "hunter2" in command.raw()
    for shown in (str(command), repr(command), f"{command}", repr([command]), repr(Secret("hunter2"))):
        assert "hunter2" not in shown
        assert MASK in shown


@pytest.mark.parametrize("argument", ["a\0b", Secret("a\0b")])
def test_nul_is_refused(argument: str | Secret) -> None:
    with pytest.raises(ValueError, match="NUL"):
        Cmd("echo", argument)
