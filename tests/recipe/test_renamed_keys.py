"""A key that was renamed is read by its old name, with a finding that names the place; both names are an error."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner

from rlx.backends import registry
from rlx.cli.frame.app import command_line
from rlx.model.launch_plan import with_current_names
from rlx.planning.preflight import preflight, sealed_plan
from rlx.recipe import RecipeError, ResolvedRecipe, editor_schema, load_recipe
from rlx.recipe.edit import with_keys_renamed
from rlx.renamed_keys import RenamedKey, current_names, first_names
from tests.conftest import REPOSITORY
from tests.recipe.changed_schema import use, with_renamed
from tests.runs.toys import toy_plan
from tests.wording import settled

ROW = RenamedKey("rollout.tensor_parallel", "rollout.tp", "0.4.0")
MOVED = RenamedKey("sampling.tp", "rollout.tp", "0.4.0")
BASE = """
version: 1
name: sums
backend: {kind: toy, version: "1.0"}
model: {path: /nowhere/model}
data: {train: /nowhere/train, val: /nowhere/val, train_rows: 8, val_rows: 100, max_prompt_tokens: 8,
       max_response_tokens: 8}
reward: gsm8k
train: {batch_size: 4, mini_batch_size: 4, micro_batch_size: 4, steps: 3, lr: 0.25}
rollout:
  engine: cpu
  n: 2
  log_prob_micro_batch_size: 4
layout: {device: cpu}
eval: {every: 3}
"""


@pytest.fixture(autouse=True)
def _renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlx.renamed_keys.RENAMED", (ROW,))
    monkeypatch.setitem(registry.PACKAGES, "toy", "tests.backends.toy")


def written(folder: Path, text: str = "", name: str = "recipe.yaml") -> Path:
    (folder / name).write_text(BASE + text, encoding="utf-8")
    return folder / name


def with_old_name(folder: Path, text: str = "") -> Path:
    path = written(folder, text)
    path.write_text(path.read_text(encoding="utf-8").replace("  n: 2\n", "  n: 2\n  tensor_parallel: 2\n"))
    return path


def named(resolved: ResolvedRecipe) -> list[str]:
    return [f"{Path(one.place.file).name}:{one.place.line}" for one in resolved.old_names]


def test_the_old_name_is_read_where_it_stands(tmp_path: Path) -> None:
    resolved = load_recipe(with_old_name(tmp_path)).resolve("main")
    assert resolved.recipe.rollout.tp == 2
    assert resolved.origins["rollout.tp"] == "recipe.yaml:13"
    assert "tensor_parallel" not in json.dumps(resolved.document)
    assert named(resolved) == ["recipe.yaml:13"]


def test_a_finding_names_file_line_and_both_names(tmp_path: Path, wording: SnapshotAssertion) -> None:
    path = with_old_name(tmp_path)
    plan = sealed_plan(toy_plan("true"), load_recipe(path).resolve("main"))
    (found,) = [finding for finding in preflight([plan, plan]) if finding.id == "RLX008"]
    assert found.where == f"{path}:13"
    for text in (found.message, found.fix):
        assert "rollout.tensor_parallel" in text and "rollout.tp" in text
    assert [found.message, found.fix] == wording


def test_it_is_said_once_for_all_arms(tmp_path: Path) -> None:
    path = with_old_name(tmp_path, "control: a\narms: {a: {}, b: {train: {lr: 0.5}}}\n")
    done = CliRunner().invoke(command_line(["validate"]), ["validate", str(path)])
    assert done.exit_code == 0, done.output
    assert (done.stdout + done.stderr).count(f"RLX008 {path}:13: rollout.tensor_parallel ") == 1


def test_a_file_that_extends_another_may_have_either_name(tmp_path: Path) -> None:
    base = with_old_name(tmp_path)
    child = tmp_path / "child.yaml"
    child.write_text(f"extends: {base.name}\nrollout: {{tp: 4}}\n", encoding="utf-8")
    assert load_recipe(child).resolve("main").recipe.rollout.tp == 4
    child.write_text(f"extends: {base.name}\nrollout: {{tensor_parallel: 8}}\n", encoding="utf-8")
    resolved = load_recipe(child).resolve("main")
    assert resolved.recipe.rollout.tp == 8
    assert named(resolved) == ["child.yaml:2", "recipe.yaml:13"]
    child.write_text(f"extends: {base.name}\nrollout: {{tensor_parallel: null}}\n", encoding="utf-8")
    assert load_recipe(child).resolve("main").recipe.rollout.tp == 1


def test_an_arm_has_it_and_the_treatment_the_new_name(tmp_path: Path) -> None:
    path = written(tmp_path, "control: a\narms:\n  a: {}\n  b: {rollout: {tensor_parallel: 2}}\n  c: {seed: 2}\n")
    file = load_recipe(path)
    assert file.arms == ("a", "b", "c")
    resolved = file.resolve("b")
    assert (resolved.treatment, resolved.recipe.rollout.tp) == (("rollout.tp",), 2)
    assert resolved.origins["rollout.tp"] == "arm b, recipe.yaml:19"
    assert named(resolved) == ["recipe.yaml:19"]
    assert not named(file.resolve("a")), "what another arm writes is no matter of this one"


@pytest.mark.parametrize("option", ["rollout.tensor_parallel=4", "rollout.tp=4"])
def test_an_option_beats_the_file_by_either_name(option: str, tmp_path: Path) -> None:
    resolved = load_recipe(with_old_name(tmp_path), [option]).resolve("main")
    assert (resolved.recipe.rollout.tp, resolved.origins["rollout.tp"]) == (4, "--set")
    assert ("--set:0" in named(resolved)) == ("tensor_parallel" in option)


def test_an_option_reaches_an_arm(tmp_path: Path) -> None:
    path = written(tmp_path, "arms: {a: {}, b: {}}\n")
    file = load_recipe(path, ["arms.b.rollout.tensor_parallel=2"])
    assert [file.resolve(arm).recipe.rollout.tp for arm in file.arms] == [1, 2]


def test_both_names_in_one_place_are_an_error_with_both_lines(tmp_path: Path, wording: SnapshotAssertion) -> None:
    path = with_old_name(tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace("  n: 2\n", "  n: 2\n  tp: 2\n"), encoding="utf-8")
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert caught.value.message.startswith(f"{path}:14: rollout.tensor_parallel: ")
    assert f"{path}:13" in caught.value.message
    assert settled(caught.value.message, {str(tmp_path): "folder"}) == wording


def test_so_they_are_in_an_arm_and_in_options(tmp_path: Path) -> None:
    both = written(tmp_path, "arms:\n  a: {rollout: {tensor_parallel: 2, tp: 2}}\n")
    with pytest.raises(
        RecipeError, match=r"arm a: arms\.a\.rollout\.tensor_parallel|arms\.a\.rollout\.tensor_parallel"
    ):
        load_recipe(both)
    with pytest.raises(RecipeError, match=r"--set: rollout\.tensor_parallel: .*\brollout\.tp\b"):
        load_recipe(written(tmp_path), ["rollout.tensor_parallel=2", "rollout.tp=2"])


def test_a_wrong_value_is_reported_where_the_old_name_stands(tmp_path: Path) -> None:
    path = with_old_name(tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace("parallel: 2", "parallel: two"), encoding="utf-8")
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert f"{path}:13: rollout.tp: must be a whole number" in caught.value.message


def test_a_key_may_move_to_another_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlx.renamed_keys.RENAMED", (MOVED,))
    resolved = load_recipe(written(tmp_path, "sampling: {tp: 2}\n")).resolve("main")
    assert resolved.recipe.rollout.tp == 2


def test_editors_show_it_as_deprecated(wording: SnapshotAssertion) -> None:
    schema: dict[str, Any] = editor_schema()
    keys = schema["$defs"]["Rollout"]["properties"]
    assert keys["tensor_parallel"] == {
        **keys["tp"],
        "deprecated": True,
        "description": wording,
    }
    assert "deprecated" not in keys["tp"]


def test_editors_know_a_section_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlx.renamed_keys.RENAMED", (MOVED, RenamedKey("cores", "seed", "0.4.0")))
    schema = editor_schema()
    for root in (schema, schema["$defs"]["Arm"]):
        assert root["properties"]["sampling"]["properties"]["tp"]["deprecated"]
        assert root["properties"]["cores"]["deprecated"]


def test_recorded_plans_and_manifests_have_the_names_of_now() -> None:
    then = {"rollout": {"tensor_parallel": 2, "n": 8}, "train": {"lr": 1.0}}
    plan = replace(toy_plan("true"), recipe=then, treatment=("rollout.tensor_parallel", "train.lr"))
    now = with_current_names(plan)
    assert now.recipe == {"rollout": {"n": 8, "tp": 2}, "train": {"lr": 1.0}}
    assert now.treatment == ("rollout.tp", "train.lr")
    assert then["rollout"] == {"tensor_parallel": 2, "n": 8}, "the plan itself stays as it is"


def test_names_of_now_and_the_first_ones_are_found_in_both_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (RenamedKey("a.b", "a.c", "0.4.0"), RenamedKey("a.c", "d.e", "0.5.0"))
    monkeypatch.setattr(import_module("rlx.renamed_keys"), "RENAMED", rows)
    assert current_names({"a": {"b": 1}}) == current_names({"a": {"c": 1}}) == {"d": {"e": 1}}
    assert first_names({"d": {"e": 1}, "f": 2}) == {"a": {"b": 1}, "f": 2}


def test_the_schema_itself_may_have_the_new_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, with_renamed("rollout", "tp", "ways"), RenamedKey("rollout.tp", "rollout.ways", "0.4.0"))
    path = written(tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace("  n: 2\n", "  n: 2\n  tp: 2\n"), encoding="utf-8")
    assert load_recipe(path).resolve("main").document["rollout"]["ways"] == 2


def test_the_text_of_a_recipe_gets_the_new_name_and_keeps_all_else(tmp_path: Path) -> None:
    path = with_old_name(tmp_path, "arms:\n  a: {rollout: {tensor_parallel: 4}}  # wide\n  b:\n")
    text = path.read_text(encoding="utf-8")
    assert with_keys_renamed(text) == text.replace("tensor_parallel", "tp")
    assert with_keys_renamed(with_keys_renamed(text)) == with_keys_renamed(text)


def test_a_key_that_moves_takes_its_value_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlx.renamed_keys.RENAMED", (MOVED,))
    path = written(tmp_path, "sampling: {tp: 2}\narms: {a: {sampling: {tp: 4}}, b: {}}\n")
    path.write_text(with_keys_renamed(path.read_text(encoding="utf-8")), encoding="utf-8")
    file = load_recipe(path)
    assert "sampling" not in path.read_text(encoding="utf-8")
    assert [file.resolve(arm).recipe.rollout.tp for arm in file.arms] == [4, 2]
    assert not file.old_names


def test_migrate_writes_the_new_name(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    base = REPOSITORY / "recipes/qwen2.5-1.5b-gsm8k-npu.yaml"
    recipe.write_text(f"extends: {base}\nname: own\nrollout: {{tensor_parallel: 1}}\n", encoding="utf-8")
    done = CliRunner().invoke(command_line(["migrate"]), ["migrate", str(recipe), "--engine", "megatron"])
    assert done.exit_code == 0, done.output
    assert "-rollout: {tensor_parallel: 1}" in done.output
    assert re.search(r"^\+rollout: \{tp: \d", done.output, re.M), done.output
