"""The noise of a fork whose lines name no steps, on its recorded log: honest ones, and ones with a fault."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rlx.evidence import Verdict, judge, read_evidence
from rlx.model import Expectations, NoiseExpectation, RunState
from rlx.model.verdict_rules import RULES
from tests.conftest import CASES
from tests.recorded import recorded_expectations

FORK = CASES / "evidence" / "fork-declared-validation-noise"
Edit = Callable[[str], str]


def without(pattern: str) -> Edit:
    def edit(log: str) -> str:
        found, count = re.subn(rf"(?m)^.*{pattern}.*\n", "", log)
        assert count, pattern
        return found

    return edit


def changed(pattern: str, new: str, count: int = 0) -> Edit:
    def edit(log: str) -> str:
        found, number = re.subn(pattern, new, log, count=count)
        assert number, pattern
        return found

    return edit


without_steps = without(r"Noise injection \(Dense\) - Step")
"""The lines that name step and sigma in the process that adds the noise."""


def after(step: int, line: str) -> Edit:
    return changed(rf"(?m)^(.* step:{step} - .*\n)", rf"\1(WorkerDict pid=4242) {line}\n", 1)


def before(step: int, line: str) -> Edit:
    return changed(rf"(?m)^(.* step:{step} - .*\n)", rf"(WorkerDict pid=4242) {line}\n\1", 1)


APPLIED = "[AQN] Applied noise to 57 rmsnorm layers (skipped 0 excluded layers)"


def verdict(tmp_path: Path, *edits: Edit, layers: int = 0, rules: int = RULES) -> Verdict:
    """Judge the recorded log after these edits; `layers`: how many the plan counts."""
    copy = tmp_path / "attempt"
    shutil.copytree(FORK, copy)
    log = (copy / "log").read_text(encoding="utf-8")
    for edit in edits:
        log = edit(log)
    (copy / "log").write_text(log, encoding="utf-8")
    expectations = recorded_expectations(json.loads((FORK / "expectations.json").read_text(encoding="utf-8")))
    if layers:
        expectations = counting(expectations, layers)
    return judge(read_evidence([copy]), expectations, RunState.FINISHED, arm="aqn", rules=rules)


def counting(expectations: Expectations, layers: int) -> Expectations:
    assert expectations.noise is not None
    promise = replace(expectations.noise.promise or NoiseExpectation(), layers=tuple(map(str, range(layers))))
    return replace(expectations, noise=replace(expectations.noise, promise=promise))


def errors(found: Verdict) -> list[str]:
    return [finding.id for finding in found.findings if finding.id != "RLX717"]


def test_steps_follow_from_the_order_of_the_lines(tmp_path: Path) -> None:
    found = verdict(tmp_path, without_steps)
    assert (found.status, errors(found)) == ("valid", [])
    assert found.noise == "σ 0.0005 · 57 layers"
    assert "by the order of the lines" in found.sentence


def test_older_rules_did_not_read_the_order(tmp_path: Path) -> None:
    found = verdict(tmp_path, without_steps, rules=2)
    assert (found.status, errors(found)) == ("unverified", ["RLX604"])


def test_lines_that_name_their_steps_are_read_as_before(tmp_path: Path) -> None:
    found = verdict(tmp_path)
    assert (found.status, errors(found)) == ("valid", [])
    assert "by the order" not in found.sentence


def test_sync_of_a_validation_before_the_first_noisy_step(tmp_path: Path) -> None:
    """It has the noise of the next step, and its line stands before that of a step without noise."""
    metric = "val-core/openai/gsm8k/acc/mean@1:0.1"
    validated = changed(r"(?m)^(.* step:3 - )", rf"\1{metric} - ", 1)
    found = verdict(tmp_path, without_steps, validated, before(3, APPLIED))
    assert "RLX605" not in errors(found)


@pytest.mark.parametrize(
    ("edits", "status", "id"),
    [
        ((without("sigma_id="),), "unverified", "RLX604"),
        ((changed(r"(step=11/29.*\n).*Applied noise.*\n", r"\1"),), "invalid", "RLX604"),
        ((after(1, APPLIED),), "invalid", "RLX605"),
        ((changed(r"(step=11/29, sigma_id=\d+, sigma=)[\d.]+", r"\g<1>0.123456"),), "invalid", "RLX603"),
        ((changed(r"(step=11/29.*\n.*Applied noise to) 57", r"\1 30"),), "invalid", "RLX613"),
        ((changed(r"Applied noise to 57", "Applied noise to 0"),), "invalid", "RLX602"),
        ((without(r"Applied noise"),), "invalid", "RLX601"),
    ],
    ids=["no sigma", "one step without", "a quiet step with", "other sigma", "other layers", "no layers", "nothing"],
)
def test_faults_are_seen_by_order(tmp_path: Path, edits: tuple[Edit, ...], status: str, id: str) -> None:
    found = verdict(tmp_path, without_steps, *edits)
    assert found.status == status
    assert id in errors(found)


@pytest.mark.parametrize(
    ("layers", "ids", "words"),
    [(57, [], "57 of 57 RMSNorm layers"), (114, ["RLX674"], "57 of 114 layers"), (28, ["RLX674"], "57 layers")],
)
def test_number_of_layers_is_that_of_the_architecture(tmp_path: Path, layers: int, ids: list[str], words: str) -> None:
    found = verdict(tmp_path, layers=layers)
    assert errors(found) == ids
    assert words in found.sentence
