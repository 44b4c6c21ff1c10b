"""Every run of the experiment that is not compared stands in each form of output, with who left it out and when."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from rlx.compare.excluded_runs import ExcludedBy
from tests.cli.support import rlx
from tests.compare.forms import timeless
from tests.compare.run_dirs import CONTROL, TREATMENT

RunsOf = Callable[..., None]
BY_COMMAND, BY_RULE = ExcludedBy.COMMAND_LINE.value, ExcludedBy.NEWEST_LAUNCH.value


def left_out(*words: str) -> list[dict[str, Any]]:
    answer: dict[str, Any] = json.loads(rlx("compare", *words, "--json", code=None).stdout)
    return answer["left_out"]  # type: ignore[no-any-return]


def left_out_part(text: str) -> list[str]:
    """Return the lines about runs that were left out, without times; none where none was."""
    parts = [part for part in text.split("\n\n") if f" {BY_COMMAND}; " in part or f" {BY_RULE}; " in part]
    return [line.strip() for line in timeless("\n".join(parts)).splitlines()]


@pytest.fixture
def three_seeds(runs_of: RunsOf) -> None:
    runs_of(*(replace(builder, seed=seed) for builder in (CONTROL, TREATMENT) for seed in (1, 2, 3)))


@pytest.mark.long
@pytest.mark.usefixtures("three_seeds")
def test_seeds_that_were_left_out_stand_in_every_form(tmp_path: Path, wording: SnapshotAssertion) -> None:
    words = ("baseline", "fast", "--seed", "1", "3")
    page = tmp_path / "page.html"
    found = left_out(*words)
    assert {(run["arm"], run["seed"], run["state"], run["by"]) for run in found} == {
        ("baseline", 2, "finished", BY_COMMAND),
        ("fast", 2, "finished", BY_COMMAND),
    }
    heading, *groups = left_out_part(rlx("compare", *words).stdout)
    assert "2 runs" in heading and len(groups) == 2
    assert [heading, *groups] == wording
    for option in (["--md"], ["--html", str(page)]):
        said = rlx("compare", *words, *option).stdout
        assert heading in said and all(run["why"] in said for run in found)
    shown = page.read_text(encoding="utf-8")
    assert heading in shown and all(run["run_id"] in shown for run in found)
    assert heading in rlx("compare", *words, "--csv").stderr, "which has no room for it"


@pytest.mark.usefixtures("three_seeds")
def test_where_no_run_is_left_out_nothing_is_said() -> None:
    assert left_out("baseline", "fast") == []
    assert left_out_part(rlx("compare", "baseline", "fast").stdout) == []


@pytest.mark.usefixtures("three_seeds")
def test_runs_beside_single_ones_that_were_named(wording: SnapshotAssertion) -> None:
    assert {run["why"] for run in left_out("baseline-s1", "fast-s1")} == wording
    assert len(left_out("baseline-s1", "fast-s1")) == 4


@pytest.mark.usefixtures("three_seeds")
def test_a_relaunch_names_what_it_replaces_and_runs_of_other_experiments_are_no_part(
    runs_of: RunsOf, wording: SnapshotAssertion
) -> None:
    other = replace(TREATMENT, arm="faster")
    runs_of(CONTROL, TREATMENT, other, minute=5)
    found = left_out("baseline", "fast")
    assert [run["by"] for run in found] == [BY_RULE] * 6 + [BY_COMMAND]
    assert found[-1]["arm"] == "faster" and found[-1]["why"] == wording
    assert {run["launch_id"] for run in found[:6]} == {"20261120-120000-abcdef"}
    older = left_out("gsm8k-baseline-s1-20261120-120000-abcd", "gsm8k-fast-s1-20261120-120000-abcd")
    assert len(older) == 7 and {run["by"] for run in older} == {BY_COMMAND}


@pytest.mark.usefixtures("three_seeds")
def test_a_run_that_goes_on_is_left_out_too(runs_of: RunsOf) -> None:
    runs_of(replace(TREATMENT, seed=4), finished=False, minute=1)
    (found,) = left_out("baseline", "gsm8k-fast-s1,gsm8k-fast-s2,gsm8k-fast-s3")
    assert (found["state"], found["seed"]) == ("running", 4)


@pytest.mark.usefixtures("three_seeds")
def test_a_report_of_the_latest_launch_names_the_others(runs_of: RunsOf, tmp_path: Path) -> None:
    runs_of(CONTROL, TREATMENT, minute=5)
    rlx("report", "-o", str(tmp_path / "all.html"))
    text = (tmp_path / "all.html").read_text(encoding="utf-8")
    assert "6 runs of gsm8k" in text and BY_RULE in text
