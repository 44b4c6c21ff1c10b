"""Recipes as folders, each with the findings that it must have: one that breaks a rule and one that keeps it.

After a deliberate change: UPDATE_CASES=1 pytest tests/planning/test_rules.py, and read the difference.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from rlx.backends.registry import kinds
from rlx.cli.frame.app import command_line
from rlx.errors import UsageError
from rlx.model import Finding, Installation, Severity
from rlx.planning.rules import check
from rlx.planning.rules.rule_table import all_rules, rules_of
from rlx.recipe import load_recipe
from rlx.recipe.schema import Recipe
from tests.backends.conftest import config_tree
from tests.conftest import CASES, REPOSITORY
from tests.wheels import INSTALLED

FOLDERS = sorted(folder for folder in (CASES / "preflight").iterdir() if folder.name.startswith("RLX"))
RULES = all_rules()
# Rules that may say a mere note about what breaks them.
NOTES = ("RLX041", "RLX157", "RLX182", "RLX238", "RLX288", "RLX620", "RLX621", "RLX661", "RLX662", "RLX738")
BASES = ("fsdp-npu.yaml", "megatron-npu.yaml", "fork-npu.yaml", "nla-npu.yaml")

# A new interpreter, where no rule is loaded yet, and threads that change places after almost each step.
IN_THREADS = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from rlx.backends.registry import kinds
from rlx.planning.rules.rule_table import rules_of
sys.setswitchinterval(1e-6)
ready = threading.Barrier(12)
def numbers(thread):
    ready.wait()
    return tuple(len(rules_of(kind)) for kind in kinds())
with ThreadPoolExecutor(12) as pool:
    print(*set(pool.map(numbers, range(12))))
"""


def findings_of(recipe: str | Path) -> list[Finding]:
    """Of all arms, each once. A config.json beside the recipe is the model's, as found on a host."""
    file, model = load_recipe(recipe), Path(recipe).with_name("config.json")
    arms = [file.resolve(arm) for arm in file.arms]
    found = found_on_a_host(arms[0].recipe, model.read_text(encoding="utf-8")) if model.exists() else None
    return list(dict.fromkeys(finding for arm in arms for finding in check(arm, found)))


def found_on_a_host(recipe: Recipe, model: str) -> Installation:
    """verl with its configuration; of another back-end the version alone."""
    if recipe.backend.kind != "verl":
        return Installation("host", recipe.backend.version, model=model)
    return Installation("host", INSTALLED, config_tree(INSTALLED), model=model)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_findings_are_as_recorded(folder: Path, wording: SnapshotAssertion) -> None:
    found = sorted(findings_of(folder / "recipe.yaml"), key=lambda one: (one.id, one.message))
    shown = [{"id": one.id, "severity": one.severity.value} for one in found]
    expected = folder / "expected.json"
    if os.environ.get("UPDATE_CASES"):
        expected.write_text(json.dumps(shown, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert shown == json.loads(expected.read_text(encoding="utf-8"))
    assert [f"{one.id}: {one.message}\n  fix: {one.fix}" for one in found] == wording
    id, kind = folder.name.split("-")[:2]
    serious = {one.id for one in found if one.severity is not Severity.NOTE or one.id == id in NOTES}
    assert (id in serious) is (kind == "breaks")
    assert kind == "breaks" or serious == set(), "a recipe that keeps a rule keeps them all"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_has_a_recipe_that_breaks_it_and_one_that_keeps_it(rule: Any) -> None:
    kinds = {folder.name.split("-")[1] for folder in FOLDERS if folder.name.startswith(rule.id)}
    assert kinds == {"breaks", "passes"}


@pytest.mark.parametrize("path", sorted((REPOSITORY / "recipes").glob("*.yaml")), ids=lambda path: path.name)
def test_the_recipes_that_come_along_keep_the_rules(path: Path) -> None:
    serious = [one for one in findings_of(path) if one.severity is not Severity.NOTE]
    assert serious == []


NUMBERS = (
    "data.train_batch_size",
    "actor_rollout_ref.rollout.n",
    "actor_rollout_ref.actor.ppo_mini_batch_size",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
    "actor_rollout_ref.rollout.tensor_model_parallel_size",
    "actor_rollout_ref.actor.megatron.pipeline_model_parallel_size",
    "actor_rollout_ref.actor.megatron.expert_model_parallel_size",
    "trainer.n_gpus_per_node",
    "trainer.total_epochs",
    "trainer.test_freq",
    "trainer.save_freq",
)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.one_of(st.integers(-3, 40), st.integers(), st.none(), st.booleans(), st.text(max_size=3), FINITE)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(overrides=st.dictionaries(st.sampled_from(NUMBERS), VALUES, max_size=6), base=st.sampled_from(BASES))
def test_no_value_makes_a_rule_raise(overrides: dict[str, Any], base: str, tmp_path: Path) -> None:
    text = f"version: 1\nname: any\nextends: {CASES}/preflight/bases/{base}\noverrides: {json.dumps(overrides)}\n"
    (tmp_path / "recipe.yaml").write_text(text, encoding="utf-8")
    try:
        load_recipe(tmp_path / "recipe.yaml")
    except UsageError:
        return  # no value of a recipe at all, such as a number beyond what YAML writes
    assert all(finding.message and finding.id for finding in findings_of(tmp_path / "recipe.yaml"))


def written(folder: Path, text: str) -> Path:
    base = CASES / "preflight/bases/fsdp-npu.yaml"
    (folder / "recipe.yaml").write_text(f"version: 1\nname: waiving\nextends: {base}\n{text}\n", encoding="utf-8")
    return folder / "recipe.yaml"


def test_a_waived_finding_is_a_note_with_its_reason(tmp_path: Path) -> None:
    recipe = written(tmp_path, "train: {micro_batch_size: 16}\nwaive: {RLX104: patched}")
    (finding,) = findings_of(recipe)
    assert (finding.id, finding.severity) == ("RLX104", Severity.NOTE)
    assert finding.waived == "patched"
    assert "(patched)" in finding.message and "train.micro_batch_size 16" in finding.message


def test_waiving_in_vain_is_noted(tmp_path: Path) -> None:
    (finding,) = findings_of(written(tmp_path, "waive: {RLX104: just in case}"))
    assert (finding.id, finding.severity) == ("RLX030", Severity.NOTE)


def test_what_is_wrong_with_the_recipe_itself_cannot_be_waived(tmp_path: Path) -> None:
    found = findings_of(written(tmp_path, "overrides: {trainer.tset_freq: 1}\nwaive: {RLX010: no}"))
    assert {(one.id, one.severity) for one in found} == {("RLX010", Severity.ERROR), ("RLX030", Severity.ERROR)}


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        ("", [], 0),
        ("train: {micro_batch_size: 16}", [], 5),
        ("train: {micro_batch_size: 16}\noverrides: {trainer.tset_freq: 1}", [], 2),
        ("rollout: {n: 1}", [], 0),
        ("rollout: {n: 1}", ["--strict"], 5),
        ("rollout: {n: 1}\nwaive: {RLX112: on purpose}", ["--strict"], 0),
    ],
)
def test_exit_codes_of_plan_and_launch(text: str, options: list[str], code: int, tmp_path: Path) -> None:
    recipe = str(written(tmp_path, text))
    assert CliRunner().invoke(command_line(["plan"]), ["plan", recipe, *options]).exit_code == code


def test_threads_load_the_rules_at_once_and_each_has_all() -> None:
    """The hosts of a sweep are planned side by side."""
    expected = tuple(len(rules_of(kind)) for kind in kinds())
    for _ in range(4):
        done = subprocess.run([sys.executable, "-c", IN_THREADS], capture_output=True, text=True, check=False)
        assert (done.stdout.strip(), done.stderr) == (str(expected), "")
