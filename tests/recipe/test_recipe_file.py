"""Arms, seeds, treatments and origins of a loaded recipe file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from rlx.errors import UsageError
from rlx.recipe import RecipeError, RecipeFile, load_recipe
from tests.recipe.conftest import RECIPE

Load = Callable[..., RecipeFile]


def test_arms_keep_the_order_of_the_file(load: Load) -> None:
    file = load()
    assert (file.name, file.arms, file.control) == ("exp", ("baseline", "aqn", "fast-1.5"), "baseline")


def test_a_treatment_is_what_the_arm_changes(load: Load) -> None:
    file = load()
    assert file.resolve("baseline").treatment == ()
    assert file.resolve("fast-1.5").treatment == ("train.lr",)
    assert set(file.resolve("aqn").treatment) >= {"aqn.sigma_start", "aqn.sigma_end", "aqn.stages"}
    assert all(key.startswith("aqn.") for key in file.resolve("aqn").treatment)


def test_an_arm_that_repeats_the_recipe_has_no_treatment(load: Load) -> None:
    assert load("arms.same={train: {lr: 0.0000005}}").resolve("same").treatment == ()


def test_a_treatment_tells_a_number_from_a_truth_value_and_an_absent_key_from_null(recipe: Path) -> None:
    recipe.write_text(
        RECIPE.replace("overrides: {", "overrides: {a: 1, b: x, ") + "  x: {overrides: {a: true, b: null, c: null}}\n",
        encoding="utf-8",
    )
    assert load_recipe(recipe).resolve("x").treatment == ("overrides.a", "overrides.b", "overrides.c")


def test_a_correction_that_an_arm_changes_is_part_of_its_treatment(load: Load) -> None:
    alone = load("arms.tis={algorithm: {correction: {weights: token}}}").resolve("tis")
    assert "algorithm.correction.weights" in alone.treatment
    assert all(key.startswith("algorithm.correction") for key in alone.treatment)
    for_all = load("algorithm.correction={weights: token}")
    assert all(key.startswith("aqn.") for key in for_all.resolve("aqn").treatment)


def test_a_seed_is_no_treatment(load: Load) -> None:
    resolved = load().resolve("fast-1.5", seed=7)
    assert resolved.recipe.seed == resolved.document["seed"] == 7
    assert resolved.treatment == ("train.lr",)
    assert resolved.origins["seed"] == "--seed"


def test_an_impossible_seed_and_an_unknown_arm(load: Load) -> None:
    with pytest.raises(UsageError, match=r"seed: .*-1"):
        load().resolve("baseline", seed=-1)
    with pytest.raises(UsageError, match="aqm") as caught:
        load().resolve("aqm")
    assert "baseline, aqn, fast-1.5" in caught.value.hint


def test_origins_name_line_arm_option_and_default(load: Load) -> None:
    origins = load("train.epochs=3").resolve("aqn").origins
    assert origins["train.lr"] == "recipe.yaml:7"
    assert origins["aqn.stages"] == "arm aqn, recipe.yaml:14"
    assert origins["train.epochs"] == "--set"
    assert origins["eval.n"] == "default"


def test_every_leaf_has_an_origin(load: Load) -> None:
    resolved = load("overrides.x={}").resolve("aqn")
    assert resolved.origins["overrides.x"] == "--set"
    assert resolved.origins["env"] == "default"
    assert "env" in resolved.document


def test_a_resolved_recipe_cannot_be_changed(load: Load) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load().resolve("baseline").recipe.train.lr = 1.0


@pytest.mark.parametrize(
    ("written", "short"),
    [
        ("Qwen/Qwen2.5-1.5B-Instruct", "qwen2.5-1.5b"),
        ("Qwen1.5-MoE-A2.7B-Chat", "qwen1.5-moe-a2.7b"),
        ("qwen3-30b-a3b", "qwen3-30b-a3b"),
    ],
)
def test_architectures_go_by_their_short_names(load: Load, written: str, short: str) -> None:
    assert load(f"model.arch={written}").resolve("baseline").recipe.model.arch == short


def test_a_local_path_starts_from_the_file_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "base.yaml").write_text(RECIPE.replace("gsm8k", "{path: reward.py}"), encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(
        "extends: base/base.yaml\narms: {aqn: {backend: {key_source: keys.json}}}\n", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path / "base")
    document = load_recipe("../recipe.yaml", ["arms.fast-1.5.reward.path=mine.py"]).resolve
    assert Path(document("aqn").document["reward"]["path"]).parent.samefile(tmp_path / "base")
    assert Path(document("aqn").document["backend"]["key_source"]).parent.samefile(tmp_path)
    assert document("fast-1.5").document["reward"]["path"] == str(tmp_path / "base" / "mine.py")


def test_ten_files_may_extend_one_another_but_not_eleven(tmp_path: Path) -> None:
    (tmp_path / "0.yaml").write_text(RECIPE, encoding="utf-8")
    for number in range(1, 11):
        (tmp_path / f"{number}.yaml").write_text(f"extends: {number - 1}.yaml\n", encoding="utf-8")
    assert load_recipe(tmp_path / "9.yaml").name == "exp"
    with pytest.raises(UsageError, match="more than 10 files"):
        load_recipe(tmp_path / "10.yaml")


def test_problems_carry_their_place(recipe: Path) -> None:
    recipe.write_text(RECIPE.replace("stages", "stagse").replace("lr: 1e-5", "lr: -1"), encoding="utf-8")
    with pytest.raises(RecipeError) as caught:
        load_recipe(recipe)
    problems = [(problem.place.line, problem.place.arm, problem.key) for problem in caught.value.problems]
    assert problems == [(14, "aqn", "aqn.stagse"), (15, "fast-1.5", "train.lr")]
    assert caught.value.exit_code == 2


def test_more_problems_than_anybody_reads_are_counted(recipe: Path) -> None:
    recipe.write_text(RECIPE + "".join(f"z{number}: 1\n" for number in range(300)), encoding="utf-8")
    with pytest.raises(RecipeError) as caught:
        load_recipe(recipe)
    lines = caught.value.message.splitlines()
    assert len(lines) == 51
    assert lines[-1] == "… and 250 more"


def test_a_secret_is_not_repeated_in_an_error(recipe: Path) -> None:
    for env in ("{DB_PASSWORD: 12345678}", "{WANDB_API_KEY: 12345678}", "{X: [12345678]}", "{X: {TOKEN: 12345678}}"):
        recipe.write_text(RECIPE.replace("control:", f"env: {env}\ncontrol:"), encoding="utf-8")
        with pytest.raises(RecipeError) as caught:
            load_recipe(recipe)
        assert "12345678" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "VLLM_MAX_BATCHED_TOKENS", "BYPASS_CACHE", "HCCL_BUFFSIZE"])
def test_what_only_sounds_like_a_secret_may_stand_in_env(load: Load, name: str) -> None:
    assert load(f"env.{name}=1").resolve("baseline").recipe.env == {name: "1"}


@pytest.mark.parametrize("name", ["HF_TOKEN", "wandb_api_key", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "PASSPHRASE"])
def test_secrets_may_not_stand_in_env(load: Load, name: str) -> None:
    with pytest.raises(UsageError, match=f"secrets: .{name}."):
        load(f"env.{name}=1")
    assert load(f"secrets=[{name}]").resolve("baseline").recipe.secrets == (name,)
