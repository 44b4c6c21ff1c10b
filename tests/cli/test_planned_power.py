"""`rlx plan` and `rlx launch` say what a registered experiment can see, from what is on this machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from rlx.cli.frame.app import command_line
from rlx.compare.statistic import upper_sd
from rlx.resources import recipes_folder
from tests.conftest import CASES
from tests.recorded import place_runs
from tests.wording import settled

pytestmark = pytest.mark.slow

ASKED = """
version: 1
name: asked
extends: {base}
experiment:
  question: Does noise help?
  primary: {{metric: val-core/rlx/tiny-addition/acc/mean@1}}
  test: superiority
  seeds: 4
"""
EQUIVALENCE = ("--set", "experiment.test=equivalence", "--set")


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "asked.yaml"
    path.write_text(ASKED.format(base=recipes_folder() / "tiny-cpu.yaml"), encoding="utf-8")
    return str(path)


def say(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(command_line(words[:1]), words)
    assert done.exit_code == code, done.output
    return done.stdout


def power(*words: str) -> dict[str, Any]:
    return dict(json.loads(say("plan", *words, "--json"))["power"])


def section(*words: str) -> str:
    return say("plan", *words).partition("\npower\n")[2]


def test_without_earlier_runs_a_spread_is_assumed_and_accuses_nobody(recipe: str, wording: SnapshotAssertion) -> None:
    told = section(recipe)
    assert "rlx power RECIPE --spread SD" in told and told == wording
    assumed = power(recipe)
    assert (assumed["spread"]["observed"], assumed["spread"]["sd"]) == (None, 5)
    tight = section(recipe, *EQUIVALENCE, "experiment.margin=0.1")
    assert "RLX042" not in tight and tight == wording


def test_the_spread_is_that_of_comparable_runs_on_this_machine(recipe: str, wording: SnapshotAssertion) -> None:
    place_runs(CASES / "six-runs")
    told = section(recipe)
    orders = ("tiny-cpu aqn, tiny-cpu baseline", "tiny-cpu baseline, tiny-cpu aqn")
    assert any(arms in told for arms in orders)
    assert settled(told, dict.fromkeys(orders, "arms")) == wording
    spread = power(recipe)["spread"]
    assert spread["sd"] == pytest.approx(upper_sd(spread["observed"], 4))


def test_a_design_that_will_rather_say_nothing_is_warned_of(recipe: str) -> None:
    place_runs(CASES / "six-runs")
    words = (recipe, *EQUIVALENCE, "experiment.margin=1")
    warned = section(*words)
    assert "warning RLX042" in warned and "0 %" in warned
    findings = json.loads(say("plan", *words, "--json"))["findings"]
    assert [one["severity"] for one in findings if one["id"] == "RLX042"] == ["warning"]
    say("plan", *words, "--strict", code=2)
    assert "RLX042" not in section(recipe, *EQUIVALENCE, "experiment.margin=60")


def test_superiority_is_warned_of_where_no_rise_is_large_enough(recipe: str, wording: SnapshotAssertion) -> None:
    place_runs(CASES / "six-runs")
    assert "RLX042" in section(recipe, "--set", "experiment.seeds=2")
    assert "RLX042" not in section(recipe, "--set", "experiment.seeds=40")


def test_nobody_is_asked(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place_runs(CASES / "six-runs")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was started")

    say("plan", recipe)
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", refuse)
        assert power(recipe)["spread"]["observed"] is not None


def test_a_recipe_without_an_experiment_has_no_power(recipe: str) -> None:
    assert json.loads(say("plan", "tiny-cpu", "--json"))["power"] is None
    assert "\npower\n" not in say("plan", "tiny-cpu")
