"""The commands about recipes, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner, Result

from rlx.cli.init import init
from rlx.cli.recipes import recipes
from rlx.cli.schema import schema
from rlx.cli.show import show
from rlx.cli.validate import validate
from rlx.errors import UsageError
from rlx.recipe import bundled_recipes, load_recipe
from rlx.resources import recipes_folder
from tests.recipe.conftest import RECIPE
from tests.wording import settled

app = typer.Typer()
for command in (init, recipes, schema, show, validate):
    app.command()(command)


def rlx(*arguments: str | Path, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_recipes_lists_what_comes_with_rlx() -> None:
    table = rlx("recipes").stdout
    for bundled in bundled_recipes():
        assert bundled.name in table
    rows = json.loads(rlx("recipes", "--json").stdout)["recipes"]
    tiny = next(row for row in rows if row["name"] == "tiny-cpu")
    assert tiny["arms"] == ["baseline", "aqn"]
    assert tiny["control"] == "baseline"


def test_every_bundled_recipe_is_valid() -> None:
    result = rlx("validate", *(bundled.name for bundled in bundled_recipes()), "--strict")
    assert result.exit_code == 0, result.stdout
    assert result.stdout.count(": valid") == len(bundled_recipes())


def test_show_prints_a_recipe_that_is_valid_again(recipe: Path, tmp_path: Path) -> None:
    shown = rlx("show", recipe, "--arm", "aqn", "--seed", "3", "--set", "train.lr=1e-6")
    assert "arm aqn; other arms: baseline, fast-1.5" in shown.stderr
    again = tmp_path / "again.yaml"
    again.write_text(shown.stdout, encoding="utf-8")
    document = load_recipe(again).resolve("main").document
    assert document == load_recipe(recipe, ["train.lr=1e-6"]).resolve("aqn", 3).document


def test_show_takes_the_control_unless_told() -> None:
    answer = json.loads(rlx("show", "tiny-cpu", "--json").stdout)
    assert (answer["arm"], answer["treatment"]) == ("baseline", [])
    assert answer["origins"]["name"].startswith("tiny-cpu.yaml:")
    assert answer["recipe"] == load_recipe("tiny-cpu").resolve("baseline").document


def test_a_wrong_name_brings_up_the_near_ones(recipe: Path) -> None:
    with pytest.raises(UsageError) as caught:
        rlx("show", "tiny-cup")
    assert "tiny-cpu" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        rlx("show", recipe.parent / "recpie.yaml")
    assert str(recipe) in caught.value.hint


def test_validate_reports_every_recipe(recipe: Path, tmp_path: Path, wording: SnapshotAssertion) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(
        RECIPE.replace("batch_size: 128", "batch_sise: 128").replace("stages: 10", "stages: 1"), encoding="utf-8"
    )
    result = rlx("validate", broken, tmp_path / "absent.yaml", "tiny-cpu", "-", stdin="a: [\n")
    assert result.exit_code == 2
    out = result.stdout
    assert f"{broken}: invalid" in out
    assert f"{broken}:7: train.batch_sise: " in out
    assert f"{broken}:14: arm aqn: aqn.stages: " in out
    assert "error RLX002 " in out and "absent.yaml: " in out
    assert settled(out, {str(tmp_path): "folder"}) == wording
    assert "tiny-cpu: valid (arms baseline, aqn)" in out
    assert "error RLX002 stdin:1: a [" in out


def test_validate_as_json(recipe: Path) -> None:
    result = rlx("validate", recipe, "--json", "--set", "train.lr=0")
    assert result.exit_code == 2
    (row,) = json.loads(result.stdout)["recipes"]
    assert row["valid"] is False
    assert [(found["id"], found["severity"]) for found in row["findings"]] == [("RLX001", "error")]
    assert row["findings"][0]["message"].startswith("--set: train.lr: ")


def test_validate_asks_the_back_end(recipe: Path) -> None:
    result = rlx("validate", recipe, "--set", "overrides.trainer.projekt_name=x", "--json")
    (row,) = json.loads(result.stdout)["recipes"]
    found = next(found for found in row["findings"] if "projekt_name" in found["message"])
    assert found["id"] == "RLX010"
    assert found["arms"] == ["baseline", "aqn", "fast-1.5"]
    assert result.exit_code == 2


def test_warnings_count_when_asked(recipe: Path) -> None:
    # The fork's own noise reaches the validations: a warning unless the recipe declares it.
    noisy = [
        "arms.aqn.aqn.provider=builtin",
        "waive.RLX629=a fork that has the key",
        "eval.noise=false",
        "data.train_rows=7473",
    ]
    options: list[Any] = [part for option in noisy for part in ("--set", option)]
    assert rlx("validate", recipe, *options).exit_code == 0
    assert rlx("validate", recipe, *options, "--strict").exit_code == 2


def test_schema_is_the_schema_itself() -> None:
    assert json.loads(rlx("schema").stdout)["title"] == "rlx recipe"


@pytest.mark.parametrize("bundled", [recipe.name for recipe in bundled_recipes()])
def test_init_writes_a_recipe_that_is_valid(tmp_path: Path, bundled: str) -> None:
    target = tmp_path / "new" / "my-exp.yaml"
    written = rlx("init", target, "--from", bundled).stdout.split()
    assert written[0] == str(target)
    assert load_recipe(target).name == "my-exp"
    for path in written[1:]:
        assert Path(path).read_bytes() == (recipes_folder() / Path(path).relative_to(target.parent)).read_bytes()
    assert rlx("validate", target).exit_code == 0


def test_init_never_overwrites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rlx("init")
    (tmp_path / "recipe.yaml").write_text("mine", encoding="utf-8")
    for target in ("recipe.yaml", "."):
        with pytest.raises(UsageError, match="exists already"):
            rlx("init", target)
    assert (tmp_path / "recipe.yaml").read_text(encoding="utf-8") == "mine"


def test_init_never_overwrites_a_file_that_the_recipe_names(tmp_path: Path) -> None:
    (tmp_path / "tiny-cpu").mkdir()
    (tmp_path / "tiny-cpu" / "reward.py").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match=r"reward\.py: "):
        rlx("init", tmp_path / "a.yaml", "--from", "tiny-cpu")
    assert not (tmp_path / "a.yaml").exists()
    (tmp_path / "tiny-cpu" / "reward.py").write_bytes((recipes_folder() / "tiny-cpu" / "reward.py").read_bytes())
    rlx("init", tmp_path / "a.yaml", "--from", "tiny-cpu")
    assert load_recipe(tmp_path / "a.yaml").name == "a"


def test_init_from_an_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        rlx("init", tmp_path / "a.yaml", "--from", "tinycpu")
    assert "tiny-cpu" in caught.value.hint
