"""`rlx power`: from options alone, and from the spread of recorded seeds."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import variance
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

import rlx as front_door
from rlx.compare.statistic import upper_sd
from rlx.resources import recipes_folder
from tests.cli.support import rlx
from tests.conftest import CASES
from tests.recorded import place_runs

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


def answer(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(rlx("power", "tiny-cpu", *words, "--json").stdout)
    return found


def test_an_assumed_spread(wording: SnapshotAssertion) -> None:
    text = rlx("power", "tiny-cpu", "--seeds", "3", "5", "--effect", "2", "--spread", "1").stdout
    assert text == wording(name="a spread below what chance does")
    assert rlx("power", "tiny-cpu", "--spread", "6").stdout == wording(name="a spread above it")
    found = answer("--seeds", "3", "5", "--effect", "2", "--spread", "1")
    assert (found["items"]["items"], found["items"]["share"], found["spread"]["sd"]) == (100, 0.5, 1)
    assert [row["seeds"] for row in found["seeds"]] == [3, 5]
    assert [row["power"] for row in found["seeds"]] == pytest.approx([0.37, 0.78], abs=0.02)
    assert found["seeds_needed"] == 6
    assert found["seeds"][0]["device_hours"] is None


def test_equivalence_is_said_to_be_expensive_with_its_figures(wording: SnapshotAssertion) -> None:
    words = ("--seeds", "5", "--spread", "1", "--test", "equivalence", "--margin", "2")
    found = answer(*words)
    assert found["seeds"][0]["power"] == pytest.approx(0.76, abs=0.01)
    assert (found["design"]["margin"], found["seeds_needed"]) == (2, 6)
    text = rlx("power", "tiny-cpu", *words).stdout
    assert "2.1" in text and text == wording


def test_without_earlier_runs_nobody_knows_the_spread(wording: SnapshotAssertion) -> None:
    text = rlx("power", "tiny-cpu").stdout
    assert "--spread SD" in text and text == wording
    found = answer()
    assert (found["spread"], found["seeds"], found["seeds_needed"]) == (None, [], None)


def test_the_spread_of_comparable_runs_counts_by_its_upper_bound(wording: SnapshotAssertion) -> None:
    place_runs(CASES / "six-runs")
    found = answer("--effect", "5")
    spread = found["spread"]
    assert {arm["arm"]: len(arm["values"]) for arm in spread["arms"]} == {"baseline": 3, "aqn": 3}
    observed = (sum(2 * variance(arm["values"]) for arm in spread["arms"]) / 4) ** 0.5
    assert (spread["observed"], spread["df"]) == (pytest.approx(observed), 4)
    assert spread["sd"] == pytest.approx(upper_sd(observed, 4))
    assert found["items"]["share"] > 0.8
    assert [row["device_hours"] for row in found["seeds"]] == sorted(row["device_hours"] for row in found["seeds"])
    text = rlx("power", "tiny-cpu").stdout
    assert "\n    baseline: tiny-cpu-baseline-s1-" in text
    assert sorted(text.splitlines()) == wording, "the arms of one launch stand in any order"


def test_runs_of_another_evaluation_do_not_count() -> None:
    place_runs(CASES / "six-runs")
    assert answer("--set", "eval.temperature=0.5")["spread"] is None
    assert answer("--set", "data.val=/elsewhere.parquet")["spread"] is None
    assert answer("--set", "train.lr=1e-6", "--set", "eval.every=10")["spread"] is not None


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (("--test", "equivalence"), "margin"),
        (("--test", "superiority", "--margin", "1"), "margin"),
        (("--test", "better"), "superiority, non-inferiority, equivalence"),
        (("--several", "none"), "dunnett, holm"),
        (("--seeds", "1"), "1000"),
        (("--spread", "0"), "--spread"),
        (("--effect", "nan"), "--effect"),
    ],
    ids=str,
)
def test_options_that_do_not_fit(words: tuple[str, ...], fact: str, wording: SnapshotAssertion) -> None:
    refused = rlx("power", "tiny-cpu", *words, code=2).stderr
    assert fact in refused and refused == wording


def test_from_python() -> None:
    found = front_door.power("tiny-cpu", seeds=[5], effect=2.0, spread=1.0)
    assert found.seeds[0].power == pytest.approx(0.78, abs=0.02)
    with pytest.raises(front_door.UsageError, match="magic"):
        front_door.power("tiny-cpu", test="magic")


ASKED = """
version: 1
name: asked
extends: {base}
experiment:
  question: Is nothing lost?
  primary: {{metric: val-core/tiny_sum/acc/mean@1}}
  test: equivalence
  margin: 3
  seeds: 4
"""


@pytest.fixture
def asked(tmp_path: Path) -> str:
    path = tmp_path / "asked.yaml"
    path.write_text(ASKED.format(base=recipes_folder() / "tiny-cpu.yaml"), encoding="utf-8")
    return str(path)


def test_the_design_is_that_of_the_experiment(asked: str, wording: SnapshotAssertion) -> None:
    found = json.loads(rlx("power", asked, "--spread", "1", "--json").stdout)
    assert (found["design"]["claim"], found["design"]["margin"], found["effect"]) == ("equivalence", 3, 0)
    assert [row["seeds"] for row in found["seeds"]] == [2, 3, 4, 5, 8, 10]
    assert (found["registered_seeds"], found["departures"]) == (4, [])
    assert rlx("power", asked, "--spread", "1").stdout == wording
    blocks = json.loads(rlx("power", asked, "--spread", "1", "--set", "experiment.pairing=block", "--json").stdout)
    assert blocks["design"]["blocked"] and blocks["seeds"][2]["power"] < found["seeds"][2]["power"]


def test_options_override_the_experiment_and_say_so(asked: str, wording: SnapshotAssertion) -> None:
    words = ("--spread", "1", "--seeds", "6", "--test", "non-inferiority", "--margin", "2", "--several", "holm")
    found = json.loads(rlx("power", asked, *words, "--json").stdout)
    assert [row["seeds"] for row in found["seeds"]] == [6]
    assert found["design"]["several"] == "holm"
    text = rlx("power", asked, *words).stdout
    assert len(found["departures"]) == 3 and text == wording
    superior = json.loads(rlx("power", asked, "--spread", "1", "--test", "superiority", "--json").stdout)
    assert (superior["design"]["margin"], superior["effect"]) == (None, None)


def test_a_margin_turns_superiority_into_non_inferiority(asked: str) -> None:
    words = ("--set", "experiment.test=superiority", "--set", "experiment.margin=null", "--spread", "1")
    assert json.loads(rlx("power", asked, *words, "--json").stdout)["design"]["claim"] == "superiority"
    design = json.loads(rlx("power", asked, *words, "--margin", "1", "--json").stdout)["design"]
    assert (design["claim"], design["margin"]) == ("non-inferiority", 1)


def test_the_spread_is_that_of_the_primary_metric(asked: str) -> None:
    place_runs(CASES / "six-runs")
    known = json.loads(rlx("power", asked, "--json").stdout)["spread"]
    assert known is None, "no run has logged the primary metric"
    by_default = answer()["spread"]
    metric = by_default["arms"][0]["metric"]
    again = json.loads(rlx("power", asked, "--set", f"experiment.primary.metric={metric}", "--json").stdout)["spread"]
    assert (again["sd"], again["df"]) == (by_default["sd"], by_default["df"])


def test_the_spread_is_that_of_the_registered_value(asked: str) -> None:
    place_runs(CASES / "six-runs")
    words = ("--set", "experiment.primary.metric=val-core/rlx/tiny-addition/acc/mean@1")
    last = json.loads(rlx("power", asked, *words, "--json").stdout)["spread"]
    mean = ("--set", "experiment.primary.at={mean_of_last: 3}")
    several = json.loads(rlx("power", asked, *words, *mean, "--json").stdout)["spread"]
    assert several["df"] == last["df"] and several["observed"] != last["observed"]
