"""A third back-end in a folder and a row: planned, launched, watched, judged and compared like the other two."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlx.backends import registry
from rlx.cli.frame.app import command_line
from tests.runs.toys import until

RECIPE = """
version: 1
name: sums
backend: {kind: toy, version: "1.0"}
model: {path: /nowhere/model}
data: {train: /nowhere/train, val: /nowhere/val, train_rows: 8, val_rows: 100, max_prompt_tokens: 8,
       max_response_tokens: 8}
reward: gsm8k
algorithm: {kind: grpo}
train: {batch_size: 4, mini_batch_size: 4, micro_batch_size: 4, steps: 3, lr: 0.25}
rollout: {engine: cpu, n: 2, log_prob_micro_batch_size: 4}
layout: {device: cpu, devices_per_node: 1}
eval: {every: 3}
seed: 1
control: slow
arms:
  slow: {}
  fast: {train: {lr: 0.75}}
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setitem(registry.PACKAGES, "toy", "tests.backends.toy")
    path = tmp_path / "sums.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    yield str(path)


def rlx(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(command_line(arguments[:1]), list(arguments))
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout


def ended(name: str) -> dict[str, object]:
    def end() -> dict[str, object] | None:
        row: dict[str, object] = json.loads(rlx("status", name, "--json"))["runs"][0]
        return row if row["state"] not in ("queued", "starting", "running") else None

    return until(end, f"{name} ends", 180)


def test_a_rule_of_its_own_is_told_with_the_plan(recipe: str) -> None:
    told = rlx("plan", "-v", recipe, "--arm", "slow", "--set", "train.lr=2.0")
    assert "--steps=3" in told and "TOY001" in told
    assert "TOY001" not in rlx("plan", "tiny-cpu", "--arm", "baseline")


def test_it_is_launched_watched_and_compared(recipe: str) -> None:
    rlx("launch", recipe, "--host", "local", "--arm", "all")
    for arm, score in (("slow", 0.25), ("fast", 0.75)):
        row = ended(f"sums-{arm}-s1")
        assert row["state"] == "finished", row
        assert "toy step 3 of 3" in rlx("logs", f"sums-{arm}-s1")
        assert f"toy score after 3: {score:g}" in rlx("logs", f"sums-{arm}-s1")
    told = rlx("compare", "sums-slow-s1", "sums-fast-s1")
    assert "25" in told and "75" in told, told
