"""Readers that go away and streams that are not there, with real pipes: a quiet end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.runs.toys import ended, home, start, toy_plan

RLX = f"{sys.executable} -m rlx"
COMMANDS = ["recipes", "--help", "--version", "schema", "status", "status --json", "logs"]


def in_bash(line: str, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
        encoding="utf-8",
    )


@pytest.fixture(autouse=True)
def a_run() -> None:
    """With more to print than a pipe holds."""
    (ref,) = start(toy_plan("seq 1 50000\n"))
    ended(ref)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_never_reads(command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stdout:
        done = in_bash(f"{RLX} {command}; echo $? >&2", stdout.fileno())
    assert done.stderr == "141\n"


@pytest.mark.parametrize("command", ["schema", "logs", "logs --grep 1"])
def test_a_reader_of_the_first_line(command: str) -> None:
    done = in_bash(f"set -o pipefail; {RLX} {command} | head -n 1")
    assert (done.returncode in (0, 141), done.stdout.count("\n"), done.stderr) == (True, 1, "")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("closed", [">&-", "<&-", "<&- >&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_from_the_start(command: str, closed: str) -> None:
    done = in_bash(f"{RLX} {command} {closed}")
    assert (done.returncode, done.stderr) == (0, "")
    assert not (home() / "bug.log").exists()


def test_the_code_of_an_error_outlives_a_closed_stdout() -> None:
    done = in_bash(f"{RLX} logs no-such-run >&-; echo $?")
    assert (done.stdout, "no-such-run" in done.stderr) == ("12\n", True)


def test_what_did_not_fit_is_told_also_of_a_short_answer() -> None:
    done = in_bash(f"{RLX} --version >/dev/full; echo $?")
    assert (done.stdout, "No space left" in done.stderr) == ("1\n", True)
