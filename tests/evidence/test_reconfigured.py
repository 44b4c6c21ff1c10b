"""Attempts of one run whose training program composed other settings: what they left in their directories tells."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rlx.evidence import judge, read_evidence
from rlx.evidence.verdict import Verdict
from rlx.model import RunState
from rlx.model.run_dir import COMPOSED_FILE
from rlx.runs.judging.configuration import reconfigured
from rlx.runs.judging.parser_cache import ParsedFiles
from tests.evidence.resumed_runs import two_attempts
from tests.recorded import recorded_expectations

FIRST = "trainer:\n  resume_mode: disable\nactor:\n  optim: {lr: 0.0002}\ndata:\n  seed: 1\n"
RESUMED = FIRST.replace("disable", "resume_path\n  resume_from_path: /run/global_step_10")


FIRST_OF_TRL = "eval_on_start: true\nlearning_rate: 0.0002\n"


def verdict(second: str, folder: Path, backend: str = "verl", first: str = FIRST) -> Verdict:
    attempts = two_attempts("aqn", 14, 10, "", folder)
    for attempt, text in zip(attempts, (first, second), strict=True):
        (attempt / COMPOSED_FILE).parent.mkdir(parents=True)
        (attempt / COMPOSED_FILE).write_text(text, encoding="utf-8")
    changed = reconfigured(backend, attempts, ParsedFiles(folder / "home"))
    evidence = replace(read_evidence(attempts), reconfigured=changed)
    expectations = recorded_expectations(json.loads((attempts[0] / "expectations.json").read_text(encoding="utf-8")))
    return judge(evidence, expectations, RunState.FINISHED, arm="aqn")


def test_where_an_attempt_goes_on_is_no_other_setting(tmp_path: Path) -> None:
    found = verdict(RESUMED, tmp_path)
    assert (found.status, [finding.id for finding in found.findings]) == ("valid", ["RLX710"])


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (RESUMED.replace("0.0002", "0.001"), "attempt 2: actor.optim.lr 0.0002 → 0.001"),
        (RESUMED + "  shuffle: true\n", "attempt 2: data.shuffle None → True"),
    ],
)
def test_another_rate_or_another_order_of_the_data_is_seen(second: str, told: str, tmp_path: Path) -> None:
    found = verdict(second, tmp_path)
    assert "RLX055" in {finding.id for finding in found.findings}
    assert told in found.sentence
    assert (found.status, found.dissent) == ("unverified", True)


def test_trl_does_not_validate_again_the_step_that_it_goes_on_from(tmp_path: Path) -> None:
    found = verdict(FIRST_OF_TRL.replace("true", "false"), tmp_path, "trl", FIRST_OF_TRL)
    assert (found.status, [finding.id for finding in found.findings]) == ("valid", ["RLX710"])


def test_another_rate_of_trl_is_seen(tmp_path: Path) -> None:
    found = verdict(FIRST_OF_TRL.replace("true", "false").replace("0.0002", "0.001"), tmp_path, "trl", FIRST_OF_TRL)
    assert "attempt 2: learning_rate 0.0002 → 0.001" in found.sentence and "eval_on_start" not in found.sentence
    assert (found.status, found.dissent) == ("unverified", True)
