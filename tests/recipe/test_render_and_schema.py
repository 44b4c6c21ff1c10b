"""What rlx writes about recipes: YAML that reads back as the same, a JSON schema that agrees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.errors import UsageError
from rlx.recipe import RecipeFile, annotated_yaml, bundled_recipes, editor_schema, load_recipe
from tests.conftest import CASES
from tests.recipe.conftest import RECIPE
from tests.recipe.test_sets import VALUES

Load = Callable[..., RecipeFile]
BUNDLED = bundled_recipes()


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = editor_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_every_value_is_followed_by_its_origin(load: Load) -> None:
    lines = annotated_yaml(load("train.epochs=3").resolve("aqn")).splitlines()
    assert "  lr: 5.0e-07" in lines[lines.index("train:") + 1 :][5]
    origins = {line.split("#")[0].strip(): line.split("# ")[1] for line in lines if "# " in line}
    assert origins["stages: 10"] == "arm aqn, recipe.yaml:14"
    assert origins["epochs: 3"] == "--set"
    assert origins["memory_fraction: 0.5"] == "default"
    assert len({line.index("#") for line in lines if "#" in line}) == 1


def test_other_yaml_readers_see_the_same(load: Load) -> None:
    resolved = load("env.A=no", "env.B=1:30", "env.C=010", "env.D=5e-7").resolve("aqn")
    assert yaml.safe_load(annotated_yaml(resolved)) == resolved.document


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("render") / "recipe.yaml"


@pytest.mark.long
@settings(deadline=None)
@given(value=VALUES, text=st.text(st.characters(blacklist_categories=("Cc", "Cs")), max_size=20))
def test_reads_back_as_the_same_recipe(scratch: Path, value: Any, text: str) -> None:
    scratch.write_text(RECIPE, encoding="utf-8")
    options = [f"env.A={text}", "overrides.x=1"]
    resolved = load_recipe(scratch, options).resolve("aqn", seed=5)
    document = {**resolved.document, "overrides": {"x": value}}
    origins = {**resolved.origins, **dict.fromkeys(_leaves("overrides", {"x": value}), "somewhere")}
    scratch.write_text(annotated_yaml(_with(resolved, document, origins)), encoding="utf-8")
    assert load_recipe(scratch).resolve("main").document == document


def _leaves(path: str, value: Any) -> list[str]:
    if isinstance(value, dict) and value:
        return [leaf for key, child in value.items() for leaf in _leaves(f"{path}.{key}", child)]
    return [path]


def _with(resolved: Any, document: Any, origins: Any) -> Any:
    from dataclasses import replace

    return replace(resolved, document=document, origins=origins)


@pytest.mark.parametrize("bundled", BUNDLED, ids=lambda bundled: bundled.name)
def test_bundled_recipes_load_and_fit_the_schema(bundled: Any, validator: jsonschema.Draft202012Validator) -> None:
    file = load_recipe(bundled.name)
    assert len(bundled.description) > 20
    for arm in file.arms:
        assert file.resolve(arm).document["version"] == 1
    # PyYAML reads them too: nothing in them needs rlx's own rules.
    validator.validate(yaml.safe_load(bundled.path.read_text(encoding="utf-8")))


SCHEMA_CASES = (
    "typo-in-key",
    "error-in-arm",
    "number-in-quotes",
    "out-of-bounds",
    "device-unknown",
    "missing-sections",
)


@pytest.mark.parametrize("case", SCHEMA_CASES)
def test_the_schema_refuses_what_the_reader_refuses(case: str, validator: jsonschema.Draft202012Validator) -> None:
    path = CASES / "recipe" / case / "recipe.yaml"
    with pytest.raises(UsageError):
        load_recipe(path)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(yaml.safe_load(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("case", sorted(path.name for path in (CASES / "recipe").glob("ok-*")))
def test_the_schema_accepts_what_the_reader_accepts(case: str, validator: jsonschema.Draft202012Validator) -> None:
    from rlx.recipe.source import read_source
    from rlx.recipe.tree import plain
    from rlx.recipe.yaml_tree import parse

    tree, _ = parse(read_source(CASES / "recipe" / case / "recipe.yaml"))
    validator.validate(plain(tree))


def test_the_schema_tells_units() -> None:
    properties = editor_schema()["$defs"]["Train"]["properties"]
    assert properties["batch_size"]["description"] == "Prompts a step"
    assert editor_schema()["$schema"].endswith("2020-12/schema")
