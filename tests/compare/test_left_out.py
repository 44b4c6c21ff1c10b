"""Every run of the experiment that is not compared stands in each form of output, with who left it out and when."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import rlx
from tests.compare.run_dirs import CONTROL, TREATMENT

RunsOf = Callable[..., None]
SENTENCE = "are not in this comparison: a run left out after its values were seen is a run chosen"
BY_COMMAND, BY_RULE = "this command line", "the rule that a name means its newest launch"


def left_out(*words: str) -> list[dict[str, Any]]:
    answer: dict[str, Any] = json.loads(rlx("compare", *words, "--json", code=None).stdout)
    return answer["left_out"]  # type: ignore[no-any-return]


@pytest.fixture
def three_seeds(runs_of: RunsOf) -> None:
    runs_of(*(replace(builder, seed=seed) for builder in (CONTROL, TREATMENT) for seed in (1, 2, 3)))


@pytest.mark.usefixtures("three_seeds")
def test_seeds_that_were_left_out_stand_in_every_form(tmp_path: Path) -> None:
    words = ("baseline", "fast", "--seed", "1", "3")
    page = tmp_path / "page.html"
    for option in ([], ["--md"], ["--html", str(page)]):
        said = rlx("compare", *words, *option).stdout
        assert f"2 runs of gsm8k {SENTENCE}" in said
        assert "baseline, seed 2 (finished), launched 20" in said and f"left out by {BY_COMMAND}; --seed" in said
    assert SENTENCE in page.read_text(encoding="utf-8") and "gsm8k-fast-s2-20261120-120000-abcd" in page.read_text(
        encoding="utf-8"
    )
    assert {(run["arm"], run["seed"], run["state"], run["by"]) for run in left_out(*words)} == {
        ("baseline", 2, "finished", BY_COMMAND),
        ("fast", 2, "finished", BY_COMMAND),
    }
    assert SENTENCE in rlx("compare", *words, "--csv").stderr, "which has no room for it"


@pytest.mark.usefixtures("three_seeds")
def test_where_no_run_is_left_out_nothing_is_said() -> None:
    assert left_out("baseline", "fast") == []
    assert "not in this comparison" not in rlx("compare", "baseline", "fast").stdout


@pytest.mark.usefixtures("three_seeds")
def test_runs_beside_single_ones_that_were_named() -> None:
    assert {run["why"] for run in left_out("baseline-s1", "fast-s1")} == {"it names other runs"}
    assert len(left_out("baseline-s1", "fast-s1")) == 4


@pytest.mark.usefixtures("three_seeds")
def test_a_relaunch_names_what_it_replaces_and_runs_of_other_experiments_are_no_part(runs_of: RunsOf) -> None:
    other = replace(TREATMENT, arm="faster")
    runs_of(CONTROL, TREATMENT, other, minute=5)
    found = left_out("baseline", "fast")
    assert [run["by"] for run in found] == [BY_RULE] * 6 + [BY_COMMAND]
    assert (found[-1]["arm"], found[-1]["why"]) == ("faster", "it names other arms")
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
    assert f"6 runs of gsm8k {SENTENCE}" in text and BY_RULE in text
