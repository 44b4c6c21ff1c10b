"""Runs of which no recipe says anything are held to the configuration that their log prints, and are told so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.support import rlx
from tests.conftest import CASES
from tests.wording import settled

CONFIG = (CASES / "printed-config/log").read_text(encoding="utf-8")
BASELINE = (CASES / "logs/tiny-baseline/log").read_text(encoding="utf-8")
AQN = (CASES / "logs/tiny-aqn/log").read_text(encoding="utf-8")
FORK_NOISE = "'noise_injection': {'enabled': True, 'sigma_start': 0.05, 'sigma_end': 0.0005, 'num_stages': 5},\n"


def with_noise(config: str) -> str:
    mark = re.search(r"^(.*TaskRunner\S* pid=\d+\)\S* +)'test_freq': 5,$", config, re.MULTILINE)
    assert mark
    return config.replace(mark[0], f"{mark[1]}{FORK_NOISE}{mark[0]}")


def without_validation(log: str, step: int) -> str:
    """The log with that step's line stripped of what the validation measured."""
    (line,) = [line for line in log.splitlines() if re.search(rf"step:{step} - ", line)]
    kept = " - ".join(part for part in line.split(" - ") if not part.startswith(("val-", "timing_s/testing")))
    return log.replace(line, kept)


def judged(tmp_path: Path, text: str, command: str = "import") -> dict[str, Any]:
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")
    log_of = {"import": str(path), "adopt": f"local:{path}"}[command]
    run = json.loads(rlx(command, log_of, "--name", f"old{len(text)}", "--json").stdout)["run_id"]
    (row,) = json.loads(rlx("status", run, "--json").stdout)["runs"]
    return dict(row["verdict"])


def ids(verdict: dict[str, Any]) -> list[str]:
    return [finding["id"] for finding in verdict["findings"]]


@pytest.mark.parametrize("command", ["import", "adopt"])
def test_a_whole_log_is_unverified_and_says_what_it_was_held_to(
    tmp_path: Path, command: str, wording: SnapshotAssertion
) -> None:
    verdict = judged(tmp_path, CONFIG + BASELINE, command)
    assert (verdict["status"], ids(verdict)) == ("unverified", ["RLX716"])
    assert "5 validations" in verdict["sentence"] and "step 20" in verdict["sentence"]
    assert settled(verdict["sentence"], {str(tmp_path): "folder"}) == wording


@pytest.mark.parametrize(("step", "found"), [(10, "RLX703"), (20, "RLX702")])
def test_a_validation_that_the_configuration_schedules_is_missed(tmp_path: Path, step: int, found: str) -> None:
    log = without_validation(BASELINE, step)
    assert ids(judged(tmp_path, log)) == ["RLX716"]
    verdict = judged(tmp_path, CONFIG + log)
    assert (verdict["status"], ids(verdict)) == ("incomplete", [found, "RLX716"])


def test_a_log_without_validations_that_schedules_none_is_not_accused(
    tmp_path: Path, wording: SnapshotAssertion
) -> None:
    log = BASELINE
    for step in (0, 5, 10, 15, 20):
        log = without_validation(log, step)
    config = CONFIG.replace("'test_freq': 5,", "'test_freq': -1,").replace(
        "'val_before_train': True", "'val_before_train': False"
    )
    verdict = judged(tmp_path, config + log)
    assert (verdict["status"], ids(verdict)) == ("unverified", ["RLX716"])
    assert verdict["sentence"] == wording


def test_a_log_that_goes_on_from_a_checkpoint_owes_no_earlier_validation(tmp_path: Path) -> None:
    begin = next(i for i, line in enumerate(BASELINE.splitlines()) if "step:11 - " in line)
    resumed = "\n".join(line for i, line in enumerate(BASELINE.splitlines()) if i >= begin or "step:" not in line)
    assert {"RLX702", "RLX703"}.isdisjoint(ids(judged(tmp_path, CONFIG + resumed)))


def test_noise_that_the_configuration_asks_for_and_no_line_shows(tmp_path: Path) -> None:
    verdict = judged(tmp_path, with_noise(CONFIG) + BASELINE)
    assert (verdict["status"], sorted(ids(verdict))) == ("unverified", ["RLX619", "RLX716"])
    assert "RLX619" not in ids(judged(tmp_path, with_noise(CONFIG) + AQN))
    early = BASELINE[: BASELINE.index("step:4 - ")]
    assert "RLX619" not in ids(judged(tmp_path, with_noise(CONFIG) + early))


def test_a_configuration_of_odd_values_says_nothing(tmp_path: Path, wording: SnapshotAssertion) -> None:
    verdict = judged(tmp_path, CONFIG.replace("'test_freq': 5,", "'test_freq': 'often',") + BASELINE)
    assert ids(verdict) == ["RLX716"] and "is checked against" not in verdict["sentence"]
    assert settled(verdict["sentence"], {str(tmp_path): "folder"}) == wording
