"""What only a running trainer reaches: recipes that break a rule, each run once for real, and what became of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlx.model import Severity
from rlx.planning.rules import check
from rlx.recipe import load_recipe
from rlx.runs.judging.diagnose_runs import diagnose_log
from tests.conftest import CASES, REPOSITORY

RUNS = {folder.name: folder for folder in sorted((CASES / "preflight-in-verl").iterdir())}
# What the rule's message and the exception of verl both say: numbers, or what is missing.
SAID = {
    "RLX101-no-batch": ("10 do not fill one batch of 20", "ZeroDivisionError"),
    "RLX105-mini-over-groups": ("= 25 samples are no multiple of the 2", "mini_batch_size=25 and self.engine"),
    "RLX111-dynamic": ("16 × 1", "max_token_len=16"),
    "RLX143-reward-none": ("has no return with a value", "rm_scores"),
    "RLX206-sequence": ("layout.cp 2 does not divide the 1 devices", "AssertionError"),
    "RLX207-rollout-tp": (
        "rollout.tp 2 does not divide the 1 devices",
        "world_size: 1 is not divisible by infer_world",
    ),
    "RLX735-no-logger": ("trainer.logger null", "'NoneType' object is not iterable"),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_rule_objects_to_what_was_run(name: str) -> None:
    found = check(load_recipe(RUNS[name] / "recipe.yaml").resolve("baseline"))
    (about,) = [one for one in found if one.id == name[:6]]
    assert about.severity is not Severity.NOTE
    assert SAID.get(name, ("",))[0] in about.message


@pytest.mark.parametrize("name", RUNS)
def test_diagnose_names_the_same_cause(name: str) -> None:
    cause = diagnose_log(RUNS[name] / "log").diagnosis.cause
    expected = json.loads((RUNS[name] / "expected.json").read_text(encoding="utf-8"))
    shown = {"cause": cause and cause.id, "raised": cause.exception if cause else "", "at": cause.at if cause else ""}
    assert {"rule": name[:6], **shown} == expected
    assert SAID.get(name, ("", ""))[1] in expected["raised"]


def test_a_run_that_only_validates_ends_at_step_0() -> None:
    assert [step for step, _ in steps(RUNS["RLX739-val-only"])] == [0]


def test_an_actor_that_is_never_updated_has_no_gradient() -> None:
    told = steps(RUNS["RLX739-warm-up"])
    assert [step for step, _ in told] == [0, 1, 2]
    assert not any("actor/grad_norm" in values for _, values in told)


def test_a_run_whose_data_ends_stops_there(tmp_path: Path) -> None:
    """RLX102: its log is one of the evidence's cases."""
    (tmp_path / "recipe.yaml").write_text(
        f"version: 1\nname: any\nextends: {REPOSITORY}/recipes/tiny-cpu.yaml\ntrain: {{steps: 8}}\neval: {{every: 3}}\n"
        "overrides: {data.train_max_samples: 80, trainer.total_epochs: 1}\n",
        encoding="utf-8",
    )
    found = check(load_recipe(tmp_path / "recipe.yaml").resolve("baseline"))
    (ends,) = [one.message for one in found if one.id == "RLX102"]
    assert "4 of 8" in ends
    told = steps(CASES / "logs/dataloader-ends-early")
    assert told[-1][0] == 4
    assert not any(key.startswith("val-core") for key in told[-1][1])


def steps(folder: Path) -> list[tuple[int, dict[str, Any]]]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [(document["step"], document["data"]) for document in map(json.loads, lines)]
