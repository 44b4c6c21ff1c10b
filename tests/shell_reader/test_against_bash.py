"""The words that are read must be those that bash itself makes of the same script."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rlx.shell_reader import read_script
from tests.conftest import CASES

SNIPPETS = sorted((CASES / "shell-reader").glob("*.sh"))
HOME = "/home/somebody"
# Each word between two marks, each command in its own line.
SHOW = "show() { printf '<%s>' \"$@\" | tr '\\n' '|'; echo; }; source "


def by_bash(script: Path) -> list[str]:
    done = subprocess.run(
        ["env", "-i", f"HOME={HOME}", "PATH=/usr/bin:/bin", "bash", "-c", f"{SHOW}{script}"],
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def by_reading(script: Path) -> list[str]:
    read = read_script(script.read_text(encoding="utf-8"), script.name)
    assert read.skipped == ()
    environment = {"HOME": HOME}
    commands = [[word.text(lambda name: environment.get(name, "")) for word in each.words] for each in read.commands]
    assert all(each.is_certain for each in read.commands)
    shown = [words[1:] for words in commands if words[0] == "show"]
    return ["".join(f"<{word}>" for word in words).replace("\n", "|") for words in shown]


@pytest.mark.parametrize("script", SNIPPETS, ids=lambda path: path.stem)
def test_the_words_are_bash_s_own(script: Path) -> None:
    assert by_reading(script) == by_bash(script)
