"""rlx plan shows what launch would do, and launch takes what plan wrote."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from syrupy.assertion import SnapshotAssertion
from typer.testing import CliRunner, Result

from rlx.api.hosts import Target
from rlx.api.launching import plan_again, read_plans
from rlx.api.planning import Plans, plan_at
from rlx.cli.plan import plan
from rlx.errors import UsageError
from rlx.hosts import Host, local_site
from tests.backends.conftest import AQN, BASE, CPU, merge


def planned(recipe: str, arms: Sequence[str] = (), seeds: Sequence[int] = ()) -> Plans:
    return plan_at(recipe, arms, seeds, [], Target(Host("local"), local_site()))


APP = typer.Typer()
APP.command()(plan)


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    arms = {"baseline": {}, "aqn": {"aqn": AQN}}
    return written(tmp_path, CPU, {"arms": arms, "control": "baseline", "secrets": ["WANDB_API_KEY"]})


def written(folder: Path, *changes: dict[str, Any]) -> str:
    document: dict[str, Any] = {}
    for change in (BASE, *changes):
        merge(document, change)
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return str(path)


def invoke(*arguments: str, code: int = 0, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(APP, arguments, input=stdin)
    assert result.exit_code == code, result.output
    return result


def test_what_follows_the_training_is_shown_in_words(tmp_path: Path, wording: SnapshotAssertion) -> None:
    post = {"rows": "/data/held-out.parquet", "row_count": 1319, "n": 4, "temperature": 0.6}
    text = invoke(written(tmp_path, CPU, {"train": {"save_every": 116}, "eval": {"post": post}}), "-v").stdout
    (part,) = [part for part in re.split(r"\n(?=\S)", text) if "1,319" in part]
    assert all(fact in part for fact in ("/data/held-out.parquet", "0.6", "gsm8k"))
    assert part == wording
    assert "1319 validation items, 4 samples each; metric val-core/post/acc/mean@4" in text
    assert part.splitlines()[0] not in invoke(written(tmp_path, CPU), "-v").stdout.splitlines()


def test_every_arm_is_shown_in_words(recipe: str) -> None:
    text = invoke(recipe, "-v").stdout
    assert text.count("\nexpectations\n") == 2
    for line in (
        "base-baseline-s1: verl 0.9.1, 1 × cpu",
        "    trainer.test_freq=20 \\",
        "  116 steps",
        "  validation at steps 0, 20, 40, 60, 80, 100, 116; the last step is validated",
        "  1319 validation items, 1 sample each; metric auto",
        "  no noise",
        "    steps 1–12: none",
        "    steps 13–24: sigma 0.05, 100 % of float32 weights around 1 change",
        "    steps 106–116: sigma 0.0005, <100 % of float32 weights around 1 change",
        "  WANDB_API_KEY: secret, from the environment of rlx launch",
        "  VERL_PLATFORM=cpu",
        "findings: none",
    ):
        assert line in text


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("model", "sigma 0.05, 1.2 % of the model's bfloat16 norm weights change"),
        ("empty", "sigma 0.05, 95 % of bfloat16 weights around 1 change"),
    ],
)
def test_norm_weights_of_a_model_on_this_machine_are_looked_at(tmp_path: Path, model: str, words: str) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    (tmp_path / "model").mkdir()
    save_file({"norm.weight": torch.tensor([60.0, 61.0])}, tmp_path / "model/model.safetensors")
    noise = {"arms": {"baseline": {}, "aqn": {"aqn": AQN}}, "control": "baseline"}
    recipe = written(tmp_path, CPU, noise, {"model": {"path": str(tmp_path / model), "dtype": "bfloat16"}})
    assert words in invoke(recipe, "--arm", "aqn", "-v").stdout


def test_the_value_of_a_secret_never_shows(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "do-not-show-me")
    assert "do-not-show-me" not in invoke(recipe, "--files").output
    assert "do-not-show-me" not in invoke(recipe, "--json").output


def test_one_arm_with_seeds_and_changes(recipe: str) -> None:
    text = invoke(recipe, "--arm", "aqn", "--seed", "3", "--seed", "4", "--set", "eval.every=50", "-v").stdout
    assert "base-aqn-s3: " in text
    assert "base-aqn-s4: " in text
    assert "baseline" not in text.replace("control", "")
    assert "steps 0, 50, 100, 116" in text


def test_files_are_shown_on_demand(recipe: str) -> None:
    assert "--- launch.sh" not in invoke(recipe).stdout
    text = invoke(recipe, "--files").stdout
    assert "--- launch.sh\n#!/usr/bin/env bash\n" in text
    assert '--- payload/aqn.json\n{\n  "sigma_start": 0.05,' in text


def test_a_plan_read_back_is_the_plan(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = invoke(recipe, "--json").stdout
    (tmp_path / "p.json").write_text(answer, encoding="utf-8")
    plans = list(planned(recipe).plans)
    assert [one.run_name for one in plans] == ["base-baseline-s1", "base-aqn-s1"]
    assert read_plans(str(tmp_path / "p.json")) == plans
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(answer.encode()), encoding="utf-8"))
    assert read_plans("-") == plans


def test_the_same_arm_twice_is_one_plan(recipe: str) -> None:
    assert len(planned(recipe, ["aqn", "aqn"], [2, 2]).plans) == 1
    assert len(planned(recipe, ["all", "aqn"], [1, 2]).plans) == 4


def test_a_recipe_with_errors_is_shown_and_refused(tmp_path: Path) -> None:
    bad = written(tmp_path, {"overrides": {"trainer.tset_freq": 1}})
    result = invoke(bad, code=2)
    assert "error RLX010 recipe.yaml:" in result.stdout
    assert "trainer.test_freq" in result.stdout
    with pytest.raises(UsageError, match="RLX010"):
        planned(bad).refuse()


def test_a_written_plan_with_errors_is_refused_too(tmp_path: Path) -> None:
    bad = written(tmp_path, {"overrides": {"trainer.tset_freq": 1}})
    (tmp_path / "p.json").write_text(invoke(bad, "--json", code=2).stdout, encoding="utf-8")
    with pytest.raises(UsageError, match="RLX010"):
        plan_again(read_plans(str(tmp_path / "p.json"))).refuse()


@pytest.mark.parametrize(
    "content",
    ["", "[]", "[" * 100_000, "{}", '{"plans": []}', '{"plans": [{}]}', '{"plans": [1]}', '{"plans": 3}', None],
)
def test_what_is_no_plan_is_refused(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=r"p\.json"):
        read_plans(str(path))


@pytest.mark.parametrize("changed", ["arm", "name", "surplus"])
def test_a_plan_with_a_damaged_field_is_refused(changed: str, recipe: str, tmp_path: Path) -> None:
    document = json.loads(invoke(recipe, "--json").stdout)
    if changed == "surplus":
        document["plans"][0]["surplus"] = 1
    else:
        del document["plans"][0][changed]
    (tmp_path / "p.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(UsageError, match=changed):
        read_plans(str(tmp_path / "p.json"))


def test_an_unknown_host_is_refused(recipe: str) -> None:
    result = CliRunner().invoke(APP, [recipe, "--host", "npu1"])
    assert isinstance(result.exception, UsageError)


@pytest.mark.parametrize(
    ("every", "rows", "words"),
    [
        (1, 7473, "every 1 steps from 0 to 116"),
        (7, 7473, "every 7 steps from 0 to 112, and 116"),
        (None, 7473, "validation at step 0; the last step is not validated"),
        (20, None, "validation at step 0; the last step is validated"),
    ],
)
def test_validations_in_words(every: int | None, rows: int | None, words: str, tmp_path: Path) -> None:
    assert words in invoke(written(tmp_path, {"eval": {"every": every}, "data": {"train_rows": rows}}), "-v").stdout
