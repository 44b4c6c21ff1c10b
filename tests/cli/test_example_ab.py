"""docs/example-ab.md stays true: every command it shows is given again on the recorded runs, and says the same.

A line `…` of the page stands for lines that it leaves out.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlx import __version__
from tests.cli.support import rlx
from tests.conftest import CASES, REPOSITORY
from tests.recorded import place_runs

RUNS = CASES / "example-ab"
PAGE = REPOSITORY / "docs/example-ab.md"
SHOWN = REPOSITORY / "docs/example-ab"
# These would make the data and train.
NOT_AGAIN = ("data", "launch")


def sessions() -> Iterator[tuple[str, str]]:
    """(command, what the page shows of its output) of each indented block that begins with a prompt."""
    for block in re.findall(r"^    \$ rlx .*\n(?:(?:    .*)?\n)*", PAGE.read_text(), re.M):
        command, _, output = textwrap.dedent(block).strip().partition("\n")
        yield command.removeprefix("$ "), output


def replayed() -> list[tuple[str, str]]:
    return [each for each in sessions() if each[0].split()[1] not in NOT_AGAIN]


def without_padding(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines())


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.chdir(tmp_path)
    # As on the page, no model is there yet when the plan is shown.
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    return place_runs(RUNS)


@pytest.mark.parametrize(("command", "shown"), replayed(), ids=[command for command, _ in replayed()])
def test_the_page_shows_what_the_command_says(command: str, shown: str) -> None:
    said = without_padding(rlx(*shlex.split(command)[1:]).stdout)
    parts = [re.escape(part.strip("\n")) for part in re.split(r"(?m)^…$", shown)]
    assert re.fullmatch(r"(?s)\s*" + ".*".join(parts) + r"\s*", said), f"{command} says now:\n{said}"


def test_the_page_shows_the_launch_of_the_recorded_runs(runs: list[Path]) -> None:
    ((command, shown),) = [each for each in sessions() if each[0].startswith("rlx launch")]
    assert command == "rlx launch tiny-cpu --host local --arm all --seed 1 2 3"
    assert {line for line in shown.splitlines() if re.search(r"-[0-9a-f]{4}$", line)} == {run.name for run in runs}


def test_everything_that_the_page_must_show_is_among_its_commands() -> None:
    assert {"plan", "aqn", "status", "compare"} <= {command.split()[1] for command, _ in replayed()}


@pytest.mark.parametrize("words", ["--seed 1 3 baseline aqn", "baseline --seed 1 aqn --seed 3"])
def test_the_seeds_of_a_comparison_stand_anywhere(words: str) -> None:
    done = rlx("compare", *words.split())
    assert "between the means of 2 and 2 seeds" in done.stdout
    assert re.findall(r"(\w+), seed (\d) \(finished\), launched", done.stdout) == [("aqn", "2"), ("baseline", "2")]


def test_the_picture_is_what_compare_draws(tmp_path: Path) -> None:
    rlx("compare", "baseline", "aqn", "--plot", "curves.svg")
    assert (tmp_path / "curves.svg").read_text() == (SHOWN / "curves.svg").read_text().replace(
        "made by rlx 0.1.0", f"made by rlx {__version__}"
    )


def test_the_page_of_the_report_is_what_rlx_report_writes(tmp_path: Path) -> None:
    rlx("report")
    assert undated(tmp_path / "report.html") == undated(SHOWN / "report.html")


def undated(page: Path) -> str:
    """Without the moment of making and the version of rlx that made it."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d [+-]\d{4}", "", re.sub(r"made by rlx [\d.]+", "", page.read_text()))
