"""Exit code 0 of `rlx compare` and `rlx report`: only where what they state may be reported."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rlx as front_door
from rlx.compare import compare
from rlx.compare.registered_answer import AnswerKind, ClaimResult, RegisteredAnswer, RegisteredResult, RegisteredRun
from rlx.compare.sentences import headline
from rlx.errors import ExitCode
from rlx.evidence import JudgedRun, VerdictStatus
from rlx.report import picture, scene
from rlx.report.shapes import DrawnText
from tests.cli.support import rlx
from tests.compare.builders import METRIC, one_run_each, only
from tests.compare.run_dirs import ASKED, CONTROL, FAST, SILENT, SLOW, TREATMENT, arm_of
from tests.conftest import CASES

Build = Callable[..., JudgedRun]
RunsOf = Callable[..., None]
FORMS: dict[str, list[str]] = {
    "terminal": [],
    "md": ["--md"],
    "csv": ["--csv"],
    "json": ["--json"],
    "plot": ["--plot", "-"],
    "svg": ["--plot", "p.svg"],
    "html": ["--html", "p.html"],
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def take_in(*more: str) -> None:
    """Import two logs without a recipe: both runs are unverified."""
    for arm, log in (("before", "tiny-baseline"), ("after", "tiny-aqn")):
        rlx("import", str(CASES / f"logs/{log}/log"), "--name", "old", "--arm", arm, *more)


@pytest.mark.long
@pytest.mark.parametrize("more", [("--val-size", "100"), ()], ids=["tested", "values alone"])
def test_unverified_runs_end_with_14_unless_they_are_allowed(more: tuple[str, ...]) -> None:
    take_in(*more)
    for command in (["compare"], ["report", "-o", "page.html"], ["report", "--bundle", "b.tar.gz"]):
        refused = rlx(*command, "before", "after", code=14)
        assert "--allow-unverified" in refused.stderr
        rlx(*command, "before", "after", "--allow-unverified")
    rlx("compare", "before", "after", "--strict", code=14)
    rlx("compare", "before", "after", "--strict", "--allow-unverified")
    compared = front_door.compare("before", "after")
    assert not compared.reportable
    assert (compared.outcome(), compared.outcome(allow_unverified=True)) == (ExitCode.NOT_VERIFIED, ExitCode.OK)


@pytest.mark.parametrize("form", FORMS)
def test_every_output_of_unverified_runs_says_so(form: str) -> None:
    take_in("--val-size", "100")
    said = rlx("compare", "before", "after", "--allow-unverified", *FORMS[form]).stdout
    file = Path(FORMS[form][-1]) if form in ("svg", "html") else None
    text = file.read_text(encoding="utf-8") if file else said
    assert "unverified" in text
    if form == "csv":
        first, *_ = rows = list(csv.DictReader(text.splitlines()))
        marks = [name for name in first if name.endswith(" verdict")]
        assert marks == ["before verdict", "after verdict", "after - before verdict"]
        assert {row[name] for row in rows for name in marks} == {"unverified"}
        assert all(float(row[name]) is not None for row in rows for name in first if name not in marks)
    if form == "json":
        answer = json.loads(text)
        assert (answer["reportable"], answer["verified"]) == (False, False)
        assert "unverified (before, after): " in answer["claim"]
        assert {arm["verdict"]["status"] for arm in (answer["control"], *answer["treatments"])} == {"unverified"}
        assert [contrast["reportable"] for contrast in answer["contrasts"]] == [False]


def test_a_picture_names_unverified_arms(control: JudgedRun, treated: Build) -> None:
    run = treated(status=VerdictStatus.UNVERIFIED)
    drawn = scene(picture(one_run_each(control, [run]), [control, run]))
    labels = [shape.text for shape in drawn.shapes if isinstance(shape, DrawnText)]
    assert "aqn (unverified)" in labels and "baseline" in labels


@pytest.mark.parametrize("rows", [1319, None], ids=["tested", "values alone"])
def test_no_sentence_with_a_number_is_without_the_word(
    control_builder: Build, treated: Build, rows: int | None
) -> None:
    changes: dict[str, Any] = {"rows": rows, "planned_rows": rows}
    comparison = one_run_each(control_builder(**changes), [treated(status=VerdictStatus.UNVERIFIED, **changes)])
    numbers = [sentence for sentence in only(comparison).sentences if any(sign.isdigit() for sign in sentence)]
    assert numbers and all(sentence.startswith("unverified (aqn): ") for sentence in numbers)


def test_two_valid_runs_may_be_reported_and_so_may_one(runs_of: RunsOf) -> None:
    runs_of(CONTROL, TREATMENT)
    rlx("compare", "baseline", "fast")
    rlx("report", "baseline", "fast")
    rlx("report", "fast")


def test_values_of_valid_runs_may_be_reported_without_a_test(control_builder: Build, treated: Build) -> None:
    unknown: dict[str, Any] = {"rows": None, "planned_rows": None}
    comparison = one_run_each(control_builder(**unknown), [treated(**unknown)])
    assert only(comparison).test is None and "values alone" in headline(comparison)
    assert comparison.outcome() is ExitCode.OK


@pytest.mark.long
def test_what_else_speaks_against_a_comparison_is_not_allowed(runs_of: RunsOf) -> None:
    runs_of(CONTROL, SILENT)
    runs_of(TREATMENT, finished=False)
    for treatment, code in (("aqn", 14), ("fast", 11)):
        for option in ([], ["--allow-unverified"]):
            rlx("compare", "baseline", treatment, *option, code=code)
            rlx("report", "baseline", treatment, *option, code=code)
            rlx("report", treatment, *option, code=code)


def test_a_registered_answer_from_unverified_runs_is_unverified(control: JudgedRun, treated: Build) -> None:
    """Also where the runs that are compared beside it are valid."""
    answer = ClaimResult(AnswerKind.YES, 2.0, 1.0, 3.0, 0.95, 0.01, 0.99, 3, 3, (1.0, 1.0), "Welch's t test", "")
    runs = (RegisteredRun("baseline", 1, "a"), RegisteredRun("aqn", 1, "b", is_unverified=True))
    asked = RegisteredResult(ASKED, runs, (RegisteredAnswer(METRIC, "aqn", True, answer),))
    found = replace(one_run_each(control, [treated()]), registered=asked)
    assert (found.outcome(), found.outcome(allow_unverified=True)) == (ExitCode.NOT_VERIFIED, ExitCode.OK)


def test_values_whose_test_is_withheld_are_not_reported_yet(control: JudgedRun, treated: Build) -> None:
    found = compare([control], [[treated()]], withheld="4 of 6 runs are in")
    assert only(found).test is None
    assert found.outcome() is ExitCode.NOT_FINISHED


@pytest.mark.long
def test_runs_of_a_registered_experiment_that_is_complete_may_be_reported(runs_of: RunsOf) -> None:
    runs_of(*arm_of(CONTROL, SLOW), *arm_of(TREATMENT, FAST))
    for command in ("compare", "report"):
        rlx(command, "baseline", "fast")
