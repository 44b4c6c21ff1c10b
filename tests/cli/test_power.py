"""`rlx power`: from options alone, and from the spread of recorded seeds."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import variance
from typing import Any

import pytest

import rlx as front_door
from rlx.compare.spreads import upper_sd
from tests.cli.support import rlx
from tests.conftest import CASES
from tests.recorded import place_runs


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


def answer(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(rlx("power", "tiny-cpu", *words, "--json").stdout)
    return found


def test_an_assumed_spread() -> None:
    text = rlx("power", "tiny-cpu", "--seeds", "3", "5", "--effect", "2", "--spread", "1").stdout
    assert text.splitlines()[0] == "tiny-cpu: superiority, 1 treatment against one control"
    assert "items: 100, at 50 % right" in text
    assert "a standard deviation of 1 points between them, assumed (--spread)" in text
    assert "which is less than chance moves a run" in text
    assert "which is less" not in rlx("power", "tiny-cpu", "--spread", "6").stdout
    found = answer("--seeds", "3", "5", "--effect", "2", "--spread", "1")
    assert [row["seeds"] for row in found["seeds"]] == [3, 5]
    assert [row["power"] for row in found["seeds"]] == pytest.approx([0.37, 0.78], abs=0.02)
    assert found["seeds_needed"] == 6
    assert found["seeds"][0]["device_hours"] is None


def test_equivalence_is_said_to_be_expensive_with_its_figures() -> None:
    words = ("--seeds", "5", "--spread", "1", "--test", "equivalence", "--margin", "2")
    assert answer(*words)["seeds"][0]["power"] == pytest.approx(0.76, abs=0.01)
    text = rlx("power", "tiny-cpu", *words).stdout
    assert "equivalence at a margin of 2 points" in text
    assert "no true difference: 6 seeds an arm show the claim with 80 % power" in text
    assert "equivalence is expensive: 5 seeds an arm show it with 80 % power only within 2.1 points" in text


def test_without_earlier_runs_nobody_knows_the_spread() -> None:
    text = rlx("power", "tiny-cpu").stdout
    assert "nobody knows how far they spread" in text and "--spread SD" in text
    found = answer()
    assert (found["spread"], found["seeds"], found["seeds_needed"]) == (None, [], None)


def test_the_spread_of_comparable_runs_counts_by_its_upper_bound() -> None:
    place_runs(CASES / "example-ab")
    found = answer("--effect", "5")
    spread = found["spread"]
    assert {arm["arm"]: len(arm["values"]) for arm in spread["arms"]} == {"baseline": 3, "aqn": 3}
    observed = (sum(2 * variance(arm["values"]) for arm in spread["arms"]) / 4) ** 0.5
    assert (spread["observed"], spread["df"]) == (pytest.approx(observed), 4)
    assert spread["sd"] == pytest.approx(upper_sd(observed, 4))
    assert found["items"]["share"] > 0.8
    assert [row["device_hours"] for row in found["seeds"]] == sorted(row["device_hours"] for row in found["seeds"])
    text = rlx("power", "tiny-cpu").stdout
    assert "the upper 80 % bound of the" in text and "\n    baseline: tiny-cpu-baseline-s1-" in text
    assert "device hours" in text


def test_runs_of_another_evaluation_do_not_count() -> None:
    place_runs(CASES / "example-ab")
    assert answer("--set", "eval.temperature=0.5")["spread"] is None
    assert answer("--set", "data.val=/elsewhere.parquet")["spread"] is None
    assert answer("--set", "train.lr=1e-6", "--set", "eval.every=10")["spread"] is not None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--test", "equivalence"), "needs a margin"),
        (("--test", "superiority", "--margin", "1"), "has no margin"),
        (("--test", "better"), "it is one of superiority, non-inferiority, equivalence"),
        (("--several", "none"), "it is one of dunnett, holm"),
        (("--seeds", "1"), "from 2 to 1000"),
        (("--spread", "0"), "more than 0"),
        (("--effect", "nan"), "no number of points"),
    ],
)
def test_options_that_do_not_fit(words: tuple[str, ...], message: str) -> None:
    assert message in rlx("power", "tiny-cpu", *words, code=2).stderr


def test_from_python() -> None:
    found = front_door.power("tiny-cpu", seeds=[5], effect=2.0, spread=1.0)
    assert found.seeds[0].power == pytest.approx(0.78, abs=0.02)
    with pytest.raises(front_door.UsageError, match="no such"):
        front_door.power("tiny-cpu", test="magic")
