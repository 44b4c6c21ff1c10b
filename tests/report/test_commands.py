"""`rlx report` and the pictures of `rlx compare`, on run directories as rlx leaves them."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.support import rlx
from tests.compare.run_dirs import TREATMENT, write_run
from tests.conftest import CASES, REPOSITORY
from tests.recorded import place_runs
from tests.report.test_page import section
from tests.wording import settled

pytestmark = pytest.mark.slow

PAIR = CASES / "pairs" / "tiny-cpu"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that commands are typed in."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    return folder


@pytest.fixture(autouse=True)
def pair() -> dict[str, Path]:
    """The run directories of a recorded pair by arm, in the root of this test."""
    runs = place_runs(PAIR)
    return {arm: next(run for run in runs if f"-{arm}-" in run.name) for arm in ("baseline", "aqn")}


def test_report_of_the_latest_launch_says_what_compare_says(here: Path, wording: SnapshotAssertion) -> None:
    done = rlx("report")
    assert (done.stdout, done.stderr) == ("report.html\n", "")
    page = html.unescape((here / "report.html").read_text(encoding="utf-8"))
    assert "<title>tiny-cpu: aqn against baseline</title>" in page
    (contrast,) = json.loads(rlx("compare", "baseline", "aqn", "--json").stdout)["contrasts"]
    for sentence in contrast["sentences"]:
        assert sentence in page
    assert section(page, "items") == wording


def test_answers_to_the_item_that_turned_stand_side_by_side(here: Path, pair: dict[str, Path]) -> None:
    rlx("report")
    page = html.unescape((here / "report.html").read_text(encoding="utf-8"))
    items = page[page.index('<section id="items"') : page.index('<section id="speed"')]
    right = {
        arm: {line["input"]: line for line in map(json.loads, outputs.read_text(encoding="utf-8").splitlines())}
        for arm, run in pair.items()
        for outputs in [run / "attempts/1/validation/20.jsonl"]
    }
    (turned,) = [key for key, line in right["baseline"].items() if line["acc"] != right["aqn"][key]["acc"]]
    for arm in right:
        assert f"<bdi>{right[arm][turned]['output']}</bdi> <small>score {right[arm][turned]['acc']:g}</small>" in items
    assert f": {right['aqn'][turned]['gts']}" in items


def test_the_control_named_first_is_the_control(here: Path) -> None:
    rlx("report", "aqn", "baseline", "-o", "other.html")
    assert "<title>tiny-cpu: baseline against aqn</title>" in (here / "other.html").read_text(encoding="utf-8")


def test_report_of_one_run(here: Path) -> None:
    rlx("report", "aqn")
    assert "<title>tiny-cpu: aqn</title>" in (here / "report.html").read_text(encoding="utf-8")


def test_report_of_a_run_that_failed_says_why(here: Path, pair: dict[str, Path]) -> None:
    attempt = pair["baseline"] / "attempts/1"
    for path in (attempt / "metrics.jsonl", attempt / "log"):
        path.unlink()
    shutil.copy(CASES / "logs/failed-missing-data/log", attempt / "log")
    (attempt / "state/exit").write_text("1 leader 1700000000 100\n", encoding="utf-8")
    rlx("report", "baseline", code=14)
    page = html.unescape((here / "report.html").read_text(encoding="utf-8"))
    assert "FileNotFoundError" in page
    assert "RLX801" in page


def test_a_finding_of_verdict_and_diagnosis_stands_once(here: Path, pair: dict[str, Path]) -> None:
    attempt = pair["baseline"] / "attempts/1"
    (attempt / "metrics.jsonl").unlink()
    shutil.copy(CASES / "diagnosis/nan-before-a-device-assert/log", attempt / "log")
    (attempt / "state/exit").write_text("1 leader 1700000000 100\n", encoding="utf-8")
    rlx("report", "baseline", code=14)
    page = (here / "report.html").read_text(encoding="utf-8")
    verdicts = page[page.index('<section id="verdicts"') :]
    assert [verdicts.count(f">{id}<") for id in ("RLX654", "RLX893")] == [1, 1]


def test_report_of_a_run_that_goes_on_says_nothing_of_its_end(here: Path, wording: SnapshotAssertion) -> None:
    with subprocess.Popen(["sleep", "600"]) as supervisor:
        write_run(TREATMENT.plan(), TREATMENT.series, supervisor.pid, minute=1)
        rlx("report", "fast", code=11)
        supervisor.kill()
    page = html.unescape((here / "report.html").read_text(encoding="utf-8"))
    assert section(page, "verdicts") == wording


def test_page_beside_the_answer(here: Path) -> None:
    answer = json.loads(rlx("compare", "baseline", "aqn", "--json", "--html", "page.html", "--plot", "p.svg").stdout)
    assert answer["metric"] in (here / "page.html").read_text(encoding="utf-8")
    assert ElementTree.parse(here / "p.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_plot_as_png(here: Path) -> None:
    assert "written: p.png" in rlx("compare", "baseline", "aqn", "--plot", "p.png").stderr
    assert (here / "p.png").read_bytes().startswith(b"\x89PNG")


def test_plot_in_the_terminal() -> None:
    text = rlx("compare", "baseline", "aqn", "--plot", "-").stdout
    assert "  ● baseline\n  ■ aqn\n" in text
    assert "noise sigma" in text
    assert "\x1b" not in text
    assert max(map(len, text[text.index("●") :].splitlines())) <= 80


def test_colours_where_the_terminal_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[34m  ● \x1b[0mbaseline" in rlx("compare", "baseline", "aqn", "--plot", "-").stdout


def test_when_each_run_reached_a_value(here: Path, wording: SnapshotAssertion) -> None:
    rlx("report", "--reach", "0.9")
    page = html.unescape((here / "report.html").read_text(encoding="utf-8"))
    assert "0.9" in section(page, "speed")
    assert section(page, "speed") == wording
    rlx("report", "--reach", "1")
    unreached = section((here / "report.html").read_text(encoding="utf-8"), "speed")
    assert unreached == wording


def test_patterns_choose_the_training_curves_of_a_report(here: Path) -> None:
    rlx("report", "--metric", "*entropy", "--metric", "*grad_norm")
    page = (here / "report.html").read_text(encoding="utf-8")
    training = page[page.index('<section id="training"') : page.index('<section id="verdicts"')]
    assert "actor/entropy" in training and "actor/grad_norm" in training
    assert training.count("<svg") == 2 + 2


def test_patterns_choose_what_is_plotted_beside_the_compared_metric(here: Path) -> None:
    done = rlx("compare", "baseline", "aqn", "--metric", "acc/mean@1", "--metric", "*entropy", "--plot", "e.svg")
    assert "acc/mean@1" in done.stdout
    drawing = (here / "e.svg").read_text(encoding="utf-8")
    assert "actor/entropy" in drawing and "exploratory" in drawing and "acc/mean@1" not in drawing


def test_training_curves_in_the_terminal(wording: SnapshotAssertion) -> None:
    text = rlx("compare", "baseline", "aqn", "--metric", "*entropy", "--plot", "-").stdout
    assert "actor/entropy\n  ● baseline\n  ■ aqn\n" in text
    assert text[text.index("actor/entropy") :] == wording


def test_a_report_replaces_a_report_and_nothing_else(here: Path, wording: SnapshotAssertion) -> None:
    rlx("report")
    rlx("report")
    mine = here / "thesis.html"
    mine.write_text("<p>years of work", encoding="utf-8")
    done = rlx("report", "-o", "thesis.html", code=1)
    assert "thesis.html" in done.stderr and done.stderr == wording
    assert mine.read_text(encoding="utf-8") == "<p>years of work"
    assert not [path for path in here.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", ["p.png", "p.svg"])
def test_a_plot_replaces_a_plot_and_nothing_else(here: Path, name: str) -> None:
    for _ in range(2):
        rlx("compare", "baseline", "aqn", "--plot", name)
    (here / name).write_bytes(b"not of rlx")
    rlx("compare", "baseline", "aqn", "--plot", name, code=1)
    assert (here / name).read_bytes() == b"not of rlx"


def test_a_link_stays_a_link(here: Path) -> None:
    rlx("report", "-o", "real.html")
    (here / "link.html").symlink_to("real.html")
    (here / "real.html").chmod(0o640)
    rlx("report", "-o", "link.html")
    assert (here / "link.html").is_symlink()
    assert (here / "real.html").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("arguments", "code", "fact"),
    [
        (("report", "-o", "."), 1, "."),
        (("report", "-o", "none/report.html"), 1, "none"),
        (("report", "nobody"), 12, "nobody"),
        (("report", "--seed", "7"), 12, "7"),
        (("compare", "baseline", "aqn", "--plot", "p.pdf"), 2, ".svg"),
        (("compare", "baseline", "aqn", "--plot", "-", "--json"), 2, "--json"),
        (("report", "--metric", "acc", "--metric", "reward"), 2, "--metric"),
        (("report", "--metric", "*nothing*"), 2, "*nothing*"),
        (("report", "--reach", "70"), 2, "70"),
    ],
)
def test_what_cannot_be_written_is_said_with_a_fix(
    arguments: tuple[str, ...], code: int, fact: str, here: Path, wording: SnapshotAssertion
) -> None:
    done = rlx(*arguments, code=code)
    assert fact in done.stderr and "fix: " in done.stderr
    assert settled(done.stderr, {str(here): "here"}) == wording


def test_report_of_logs_without_a_plan_whose_noise_lines_name_no_step(here: Path) -> None:
    for arm in ("baseline", "aqn"):
        rlx("import", str(CASES / f"logs/tiny-{arm}/log"), "--name", "old", "--arm", arm)
    rlx("report", "baseline", "aqn", code=14)
    page = html.unescape((here / "report.html").read_text(encoding="utf-8"))
    assert "<title>old: aqn against baseline</title>" in page
    assert "unverified" in page
