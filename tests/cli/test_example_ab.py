"""docs/example-ab.md stays true: every command it shows is given again on the recorded runs, and says the same.

Each command knows what was known when it was typed: the six runs of before, and those of each launch above it on the
page. A line `…` of the page stands for lines that it leaves out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import rlx as front_door
from rlx import __version__
from rlx.errors import ExitCode
from tests.cli.support import rlx
from tests.conftest import CASES, REPOSITORY
from tests.recorded import place_bundle, place_runs

pytestmark = pytest.mark.slow

PAGE = REPOSITORY / "docs/example-ab.md"
SHOWN = REPOSITORY / "docs/example-ab"
# In the order of their launches on the page.
BUNDLES = (SHOWN / "difference.tar.gz", SHOWN / "equivalence.tar.gz")
WHERE_THEY_RAN = Path("/tmp/rlx-example/home/rlx")
# These would make the data and train.
NOT_AGAIN = ("data", "launch")


@dataclass(frozen=True)
class Session:
    """A command of the page. `launches`: how many stand above it; `shown`: what the page shows of its output."""

    command: str
    shown: str
    launches: int

    @property
    def words(self) -> list[str]:
        return shlex.split(self.command)[1:]


def sessions() -> Iterator[Session]:
    """Each indented block that begins with a prompt."""
    launches = 0
    for block in re.findall(r"^    \$ rlx .*\n(?:(?:    .*)?\n)*", PAGE.read_text(encoding="utf-8"), re.M):
        command, _, shown = textwrap.dedent(block).strip().partition("\n")
        session = Session(command.removeprefix("$ "), shown, launches)
        yield session
        launches += session.words[0] == "launch"


REPLAYED = [session for session in sessions() if session.words[0] not in NOT_AGAIN]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # As on the page, no model is there yet when the plan is shown.
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    place_runs(CASES / "six-runs")


GOING_ON = re.compile(r"no answer yet: (\d+) of (\d+) runs")


def known_to(session: Session) -> None:
    """Place the runs that a command knew; of a launch that was still going on, those that had ended."""
    runs = [place_bundle(bundle) for bundle in BUNDLES[: session.launches]]
    if going_on := GOING_ON.search(session.shown):
        for run in sorted(runs[-1], key=end_of)[int(going_on[1]) :]:
            shutil.rmtree(run)
    if session.words[0] == "verify":
        shutil.copyfile(SHOWN / session.words[1], session.words[1])


def end_of(run: Path) -> float:
    """In seconds since 1970."""
    return float((run / "attempts/1/state/exit").read_text(encoding="utf-8").split()[2])


def without_padding(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("session", REPLAYED, ids=lambda session: session.command)
def test_the_page_shows_what_the_command_says(session: Session) -> None:
    known_to(session)
    code = ExitCode.NOT_FINISHED if GOING_ON.search(session.shown) else ExitCode.OK
    said = without_padding(rlx(*session.words, code=code).stdout)
    parts = [re.escape(part.strip("\n")) for part in re.split(r"(?m)^…$", session.shown)]
    assert re.fullmatch(r"(?s)\s*" + ".*".join(parts) + r"\s*", said), f"{session.command} says now:\n{said}"


def test_the_page_shows_the_launches_of_the_recorded_runs() -> None:
    launched = [
        set(re.findall(r"^\S+-[0-9a-f]{4}$", each.shown, re.M)) for each in sessions() if each.words[0] == "launch"
    ]
    assert launched == [{run.name for run in place_bundle(bundle)} for bundle in BUNDLES]


def test_everything_that_the_page_must_show_is_among_its_commands() -> None:
    assert not [session.command for session in sessions() if "\n$ rlx" in session.shown], "a command ends the last one"
    assert {"power", "plan", "experiments", "compare", "verify"} <= {session.words[0] for session in REPLAYED}


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda bundle: bundle.name)
def test_what_a_bundle_claims_follows_from_the_evidence_in_it(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.environ.get("UPDATE_CASES"):
        write_again(bundle, monkeypatch)
    judged = front_door.judge_bundle(bundle)
    assert judged.agrees, judged.differences


def write_again(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a bundle from the evidence in it: after a change of words that is meant, with UPDATE_CASES=1."""
    # A run stands where its manifest says, and that goes into the bundle.
    monkeypatch.setenv("RLX_ROOT", str(WHERE_THEY_RAN))
    ours = WHERE_THEY_RAN.parents[1]
    ours.mkdir()
    try:
        place_runs(CASES / "six-runs")
        for each in BUNDLES[: BUNDLES.index(bundle) + 1]:
            place_bundle(each)
        shutil.copyfile(front_door.bundle("again.tar.gz", "baseline", "aqn"), bundle)
    finally:
        shutil.rmtree(ours)


def test_the_picture_is_what_compare_draws(tmp_path: Path) -> None:
    place_bundle(BUNDLES[0])
    rlx("compare", "baseline", "aqn", "--plot", "curves.svg")
    shown = re.sub(
        r"made by rlx [\d.]+", f"made by rlx {__version__}", (SHOWN / "curves.svg").read_text(encoding="utf-8")
    )
    assert (tmp_path / "curves.svg").read_text(encoding="utf-8") == shown
