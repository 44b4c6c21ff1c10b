"""rlx rehearse before anything trains: what it refuses, and that nothing is left of that."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from rlx.api.rehearsing import RehearsalResult
from rlx.cli.frame.app import command_line
from rlx.cli.rehearse import text_lines
from rlx.errors import RlxError
from rlx.evidence.smoke_test_result import SmokeTestPart, SmokeTestResult
from rlx.model import Finding, Severity
from rlx.planning.rehearsal import Places, rehearsal_of
from rlx.recipe import load_recipe


def refusal(*arguments: str) -> RlxError:
    done = CliRunner().invoke(command_line(["rehearse"]), ["rehearse", *arguments])
    assert isinstance(done.exception, RlxError), done.output
    return done.exception


def nothing_is_left(folder: Path) -> bool:
    return not list((folder / "home").glob("rehearsals/*"))


def test_a_recipe_that_breaks_a_rule_is_not_rehearsed(tmp_path: Path) -> None:
    error = refusal("qwen2.5-1.5b-gsm8k-npu", "--set", "train.micro_batch_size=3")
    assert "RLX104" in error.message and error.exit_code == 5
    assert nothing_is_left(tmp_path)


def test_a_recipe_with_unknown_keys_is_not_rehearsed(tmp_path: Path) -> None:
    error = refusal("qwen2.5-1.5b-gsm8k-npu", "--set", "overrides.trainer.nonsense=1")
    assert "RLX010" in error.message and error.exit_code == 2


@pytest.mark.parametrize("package", ["ray", "torch"])
def test_what_is_not_installed_is_named_with_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # What Python itself does for a module that is not there.
    error = refusal("qwen2.5-1.5b-gsm8k-npu")
    assert package in error.message and "[verl-cpu]'" in error.hint
    assert nothing_is_left(tmp_path)


def test_an_engine_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))  # An environment with no other one beside it.
    error = refusal("qwen2.5-1.5b-gsm8k-npu", "--engine", "vllm")
    assert ".venv-engines" in error.message and "make engines" in error.hint
    assert "vllm" in refusal("qwen2.5-1.5b-gsm8k-npu", "--engine", "sglang").message
    assert nothing_is_left(tmp_path)


def test_data_that_cannot_be_read_leaves_nothing_behind(tmp_path: Path) -> None:
    broken = tmp_path / "train.parquet"
    broken.write_text("no parquet", encoding="utf-8")
    error = refusal("qwen2.5-1.5b-gsm8k-npu", "--set", f"data.train={broken}")
    assert str(broken) in error.message
    assert nothing_is_left(tmp_path)


def test_the_text_leaves_nothing_out(tmp_path: Path, wording: SnapshotAssertion) -> None:
    recipe = load_recipe("qwen1.5-moe-a2.7b-gsm8k-npu6").resolve("aqn")
    made = rehearsal_of(recipe, Places("/tiny/model", "/tiny/data"))
    checks = (
        SmokeTestPart("data read", True, "16 rows"),
        SmokeTestPart("reward", False, "no score"),
        SmokeTestPart("rollout", None),
    )
    finding = Finding("RLX561", Severity.ERROR, "the message", "the fix")
    lines = list(text_lines(RehearsalResult(made, SmokeTestResult(checks, (finding,)), 61.2, tmp_path)))
    assert "qwen1.5-moe-a2.7b-gsm8k-npu6" in lines[0] and "FAILED" in lines[0] and "61 s" in lines[0]
    assert [line.split()[0] for line in lines[3:6]] == ["passed", "FAILED", "-"]
    assert f"error RLX561 {finding.message}" in lines and f"  fix: {finding.fix}" in lines
    keys = {line.split()[0] for line in lines if line.startswith("  ")}
    assert {change.key for change in made.changes} <= keys
    assert all(any(line.startswith(f"  {one.what} ") for line in lines) for one in made.untold)
    assert str(tmp_path) in lines[-1]
    assert lines[0] == wording
    assert all(len(line) < 250 for line in lines)
