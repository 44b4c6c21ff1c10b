"""What was claimed of historic runs, judged from logs reconstructed of the published tables, by the command line.

Each folder of tests/cases/historic has its commands and what they must lead to; its README says what was added.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
from click.testing import Result
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from rlx.cli.frame.app import command_line
from tests.cases.historic.reconstruct import reconstruct
from tests.conftest import CASES

HISTORIC = CASES / "historic"
FOLDERS = sorted(path.parent for path in HISTORIC.glob("*/commands"))
Said = dict[str, Any]
ASKED = """
experiment:
  question: Does noise help?
  primary: {metric: val-core/openai/gsm8k/acc/mean@1}
  test: superiority
  seeds: 2
"""


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("historic")
    (folder / "logs").mkdir()
    reconstruct(folder / "logs")
    shutil.copytree(HISTORIC / "recipes", folder / "recipes")
    return folder


def call(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    """In this process: a hundred starts of Python would take longer than all the rest."""
    monkeypatch.chdir(folder)
    return CliRunner().invoke(command_line(), shlex.split(command))


@pytest.mark.parametrize("case", FOLDERS, ids=lambda folder: folder.name)
def test_claim(case: Path, records: Path, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion) -> None:
    *imports, comparison = (case / "commands").read_text(encoding="utf-8").splitlines()
    for command in imports:
        done = call(command, records, monkeypatch)
        assert done.exit_code == 0, done.output
    done = call(f"{comparison} --json", records, monkeypatch)
    expected, said = json.loads((case / "expected.json").read_text(encoding="utf-8")), json.loads(done.stdout)
    assert done.exit_code == expected["exit"], done.output
    contrast, runs = said["contrasts"][0], runs_of(said)
    assert said["registered"] is None and (not said["claim"] or said["claim"].startswith("exploratory"))
    assert contrast["step"] == expected["step"]
    check_numbers(contrast, expected)
    check_findings(contrast, runs, expected)
    messages = {arm: [without_times(one["message"]) for one in run["verdict"]["findings"]] for arm, run in runs.items()}
    assert ([*map(without_times, contrast["sentences"])], messages) == wording


def test_a_question_that_is_written_into_the_recipe_afterwards_registers_nothing(
    records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(records, tmp_path / "asked")
    recipe = tmp_path / "asked/recipes/hw.yaml"
    recipe.write_text(recipe.read_text(encoding="utf-8") + ASKED, encoding="utf-8")
    *imports, comparison = (HISTORIC / "e5a-e5-judged/commands").read_text(encoding="utf-8").splitlines()
    for command in imports:
        done = call(command, tmp_path / "asked", monkeypatch)
        assert done.exit_code == 0, done.output
    said = call(comparison, tmp_path / "asked", monkeypatch).stdout
    assert "exploratory" in said and "Does noise help?" not in said


def without_times(text: str) -> str:
    """The text with run ids that are the same whenever the runs are taken in."""
    return re.sub(r"(?<=-s\d-)\d{8}-\d{6}-[0-9a-f]{4}\b", "<time>", text)


def runs_of(said: Said) -> dict[str, Said]:
    return {run["arm"]: run for arm in (said["control"], *said["treatments"]) for run in arm["runs"]}


def check_numbers(contrast: Said, expected: Said) -> None:
    if expected["difference"] is not None:
        assert 100 * contrast["difference"] == pytest.approx(expected["difference"], abs=0.006)
    if expected["n"] is None:
        assert contrast["test"] is None
        return
    assert contrast["test"]["n"] == expected["n"]
    if expected["p"] is not None:
        assert contrast["p_value"] == pytest.approx(
            float(expected["p"]), abs=rounding(expected["p"], contrast["test"]["z"])
        )


def rounding(p: str, z: float) -> float:
    """How far a published p may be off: by its last digit, and by a hundredth of a point in the shares it came from."""
    last_digit = 0.5 * 10 ** -len(p.partition(".")[2])
    return last_digit + 2 * NormalDist().pdf(z) * 0.0065


def check_findings(contrast: Said, runs: dict[str, Said], expected: Said) -> None:
    assert set(expected["contrast"]) <= {finding["id"] for finding in contrast["findings"]}
    for arm, status in expected["verdicts"].items():
        assert runs[arm]["verdict"]["status"] == status, runs[arm]["verdict"]
    for arm, ids in expected.get("findings", {}).items():
        assert set(ids) <= {finding["id"] for finding in runs[arm]["verdict"]["findings"]}


def test_which_published_values_are_no_shares_of_1319() -> None:
    """A cheap test of the tables themselves: these values cannot be what 1319 answers average to."""
    published = json.loads((HISTORIC / "published.json").read_text(encoding="utf-8"))
    odd = [
        f"{name} @{step}"
        for name, record in published.items()
        for step, percent in record["accuracy"].items()
        if round(100 * round(percent / 100 * 1319) / 1319, 2) != round(percent, 2)
    ]
    assert odd == ["E7a-30B @10", "E7a-30B @20", "E5b.second @40", "E5b.second @60", "E5b.second @100"]
