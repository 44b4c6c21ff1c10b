"""`rlx migrate`: the file that comes out, what is said about it, and that the text around a change stays."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner, Result

from rlx.api.recipes import migrate as migrate_recipe
from rlx.cli.migrate import migrate
from rlx.errors import UsageError
from rlx.model import Severity
from rlx.recipe import load_recipe
from rlx.recipe.edit import with_value, without_key
from rlx.resources import recipes_folder
from tests.conftest import CASES
from tests.wording import settled

app = typer.Typer()
app.command()(migrate)


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(app, [*map(str, arguments), "--engine", "megatron"])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.parametrize("case", sorted((CASES / "migrate").iterdir()), ids=lambda folder: folder.name)
def test_case(case: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(case, tmp_path / "case"))
    done = run(folder / "recipe.yaml", "--write", folder / "new.yaml")
    assert done.exit_code == 0, done.stderr
    written = (folder / "new.yaml").read_text(encoding="utf-8")
    assert written.replace("name: new", f"name: {case.name}") == (case / "expected.yaml").read_text(encoding="utf-8")
    changed = [line for line in done.stdout.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    old = (case / "recipe.yaml").read_text(encoding="utf-8").splitlines()
    assert [line[1:] for line in changed if line[0] == "-"] == [line for line in old if f"-{line}" in changed]
    assert load_recipe(folder / "new.yaml").resolve(load_recipe(folder / "new.yaml").arms[0]).recipe.layout.tp > 1


def test_without_write_the_file_stays_and_the_diff_says_all(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(CASES / "migrate/comments", tmp_path / "case"))
    done = run(folder / "recipe.yaml", "--tp", "2", "--micro-batch-size", "8", "--set", "layout.pp=2")
    assert (folder / "recipe.yaml").read_bytes() == (CASES / "migrate/comments/recipe.yaml").read_bytes()
    plus = [line for line in done.stdout.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert plus == ["+  engine: megatron # to be replaced", "+  tp: 2", "+  pp: 2"]


def test_a_new_place_reaches_the_same_files(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(CASES / "migrate/inherited-key", tmp_path / "case"))
    (tmp_path / "elsewhere").mkdir()
    new = tmp_path / "elsewhere/faster.yaml"
    assert run(folder / "recipe.yaml", "--write", new).exit_code == 0
    assert "extends: ../case/base.yaml\n" in new.read_text(encoding="utf-8")
    assert load_recipe(new).name == "faster"
    before = new.read_bytes()
    with pytest.raises(UsageError, match=str(new)):
        run(folder / "recipe.yaml", "--write", new)
    assert new.read_bytes() == before


def test_a_start_from_a_file_of_the_fork_needs_its_other_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"runs/qwen_7b/rl_grpo.*fsdp2") as caught:
        run("nla-qwen2.5-7b-fsdp")
    assert "--set backend.config_name" in caught.value.hint
    sets = ["backend.config_name=runs/qwen_7b/rl_grpo_megatron", "backend.key_source=nla/keys-megatron.yaml"]
    new = tmp_path / "nla.yaml"
    moved = migrate_recipe("nla-qwen2.5-7b-fsdp", tp=4, sets=sets, target=new)
    assert any("resource_pool" in words for words in moved.advice)
    # What the fork's own file has, and Megatron refuses: the shipped recipe has the corrections that are told.
    refused = {finding.id for finding in moved.findings if finding.severity is Severity.ERROR}
    assert refused == {"RLX289", "RLX293"} and not new.exists()
    new.write_text(moved.text, encoding="utf-8")
    shipped, made = (load_recipe(name).resolve("main").document for name in ("nla-qwen2.5-7b-megatron-tp4", new))
    sources = {Path(document["backend"].pop("key_source")).resolve() for document in (shipped, made)}
    assert sources == {recipes_folder() / "nla/keys-megatron.yaml"}
    corrected = shipped["overrides"].keys() - made["overrides"].keys()
    assert len(corrected) == 8 and all("override_transformer_config" in key for key in corrected)
    own = {"name": "", "waive": {}, "overrides": made["overrides"]}
    assert dict(made) | own == dict(shipped) | own


def test_a_file_of_keys_is_one_for_an_engine() -> None:
    """What it lacks would be taken for missing in the fork, what Megatron lacks for known."""
    with pytest.raises(UsageError, match=r"keys-fsdp\.yaml: .*\bfsdp\b"):
        run("qwen2.5-1.5b-gsm8k-aqn-npu")
    done = run("qwen2.5-1.5b-gsm8k-aqn-npu", "--set", "backend.key_source=aqn/keys-megatron.yaml")
    assert done.exit_code == 0 and "+layout: {tp: 2}" in done.stdout


@pytest.mark.parametrize("recipe", ["qwen1.5-moe-a2.7b-gsm8k-npu6", "001"])
def test_what_is_not_to_be_migrated(recipe: str, wording: SnapshotAssertion) -> None:
    path = CASES / "seeds/001-tp-three/recipe.yaml" if recipe == "001" else recipe
    with pytest.raises(UsageError) as caught:
        run(str(path))
    assert settled(caught.value.message, {str(CASES): "cases"}) == wording


def test_an_invalid_result_is_shown_and_not_written(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(CASES / "migrate/comments", tmp_path / "case"))
    done = run(
        folder / "recipe.yaml", "--set", "rollout.ep=3", "--set", "rollout.tp=2", "--write", tmp_path / "new.yaml"
    )
    assert done.exit_code == 2
    assert "RLX204" in done.stderr
    assert "+" in done.stdout
    assert not (tmp_path / "new.yaml").exists()


# Editing text in general.

WORDS = st.sampled_from(["a", "b", "tp", "path", "0x", "on", "a.b", "+c", "1e3", "null", "x y"])
SCALARS = st.one_of(st.integers(-5, 5), st.booleans(), WORDS, st.none())
TREES = st.recursive(SCALARS, lambda inner: st.dictionaries(WORDS, inner, min_size=1, max_size=3), max_leaves=12)
DOCUMENTS = st.dictionaries(WORDS, TREES, min_size=1, max_size=4)


def texts(document: dict[str, Any], flow: bool | None) -> str:
    return "# head\n" + yaml.safe_dump(document, default_flow_style=flow, sort_keys=False) + "# tail\n"


@given(DOCUMENTS, st.sampled_from([True, False, None]), st.lists(WORDS, min_size=1, max_size=3), SCALARS)
def test_a_value_is_what_was_set_and_all_else_as_it_was(
    document: dict[str, Any], flow: bool | None, keys: list[str], value: Any
) -> None:
    expected = copy.deepcopy(document)
    node = expected
    for key in keys[:-1]:
        if not isinstance(node.get(key), dict):
            if key in node:
                return  # a value in the way; a valid recipe has none
            node[key] = {}
        node = node[key]
    if isinstance(node.get(keys[-1]), dict):
        return
    node[keys[-1]] = value
    text = with_value(texts(document, flow), tuple(keys), value)
    assert yaml.safe_load(text) == expected
    assert text.startswith("# head\n")
    assert text.endswith("# tail\n")


@given(DOCUMENTS, st.sampled_from([True, False, None]), st.data())
def test_a_key_that_is_removed_takes_only_emptied_maps_along(
    document: dict[str, Any], flow: bool | None, data: st.DataObject
) -> None:
    expected = copy.deepcopy(document)
    nodes, keys = [expected], []
    while isinstance(nodes[-1], dict):
        keys.append(data.draw(st.sampled_from(sorted(nodes[-1]))))
        nodes.append(nodes[-1][keys[-1]])
        if data.draw(st.booleans()):
            break
    for node, key in zip(reversed(nodes[: len(keys)]), reversed(keys), strict=True):
        del node[key]
        if node:
            break
    text = without_key(texts(document, flow), tuple(keys))
    assert (yaml.safe_load(text) or {}) == expected
    assert text.startswith("# head\n")
    assert text.endswith("# tail\n")
