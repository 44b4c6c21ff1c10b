"""Launches as folders: a recipe, and the launch.sh, the order for the payload and the expectations that it leads to.

After a deliberate change: UPDATE_CASES=1 pytest tests/backends/trl/test_render.py, and read the difference.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from rlx.backends.trl.arguments import rendered
from rlx.backends.trl.backend import plan
from rlx.backends.trl.differences import SET_BY
from rlx.backends.trl.rules.limits import KEPT, UNTAKEN
from rlx.errors import UsageError
from rlx.model import LaunchPlan, Link, Site, from_jsonable, to_jsonable
from rlx.recipe import load_recipe
from rlx.recipe.schema import Recipe
from tests.conftest import CASES

FOLDERS = sorted((CASES / "render-trl").iterdir())
SITE = Site(path_prefix=("/opt/my python/bin",))
AQN = {f"rlx_aqn{part}.py" for part in ("", "_digest", "_events", "_hook", "_layers", "_noise", "_probe", "_settings")}


def planned(folder: Path, arm: str | None = None) -> LaunchPlan:
    file = load_recipe(folder / "recipe.yaml")
    return plan(file.resolve(arm or file.arms[0]), SITE)


def content(launch: LaunchPlan, path: str) -> str:
    return next(file.content for file in launch.files if file.path == path)


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def folder(request: pytest.FixtureRequest) -> Path:
    return request.param  # type: ignore[no-any-return]


def test_launch_is_as_recorded(folder: Path) -> None:
    launch = planned(folder)
    found = {
        "launch.sh": content(launch, "launch.sh"),
        "trl.json": content(launch, "payload/trl.json"),
        "expectations.json": json.dumps(to_jsonable(launch.expectations), indent=1) + "\n",
    }
    for name, text in found.items():
        if os.environ.get("UPDATE_CASES"):
            (folder / name).write_text(text, encoding="utf-8")
        assert text == (folder / name).read_text(encoding="utf-8")


FIXED = {
    "lr_scheduler_type",
    "bf16",
    "gradient_checkpointing",
    "disable_tqdm",
    "logging_steps",
    "report_to",
    "num_iterations",
}


def test_a_comparison_knows_which_keys_decide_an_argument(folder: Path) -> None:
    """Each argument names its source; one that is the same in all launches needs none."""
    file = load_recipe(folder / "recipe.yaml")
    for argument in rendered(file.resolve(file.arms[0]).recipe):
        deciding = SET_BY.get(argument.key, ())
        known = any(fnmatchcase(argument.source, pattern) for pattern in deciding)
        assert known or (argument.key in FIXED and not deciding), argument


def test_plans_are_deterministic_and_survive_json(folder: Path) -> None:
    launch = planned(folder)
    assert planned(folder) == launch
    assert from_jsonable(LaunchPlan, json.loads(json.dumps(to_jsonable(launch)))) == launch


@pytest.mark.parametrize("checker", [["bash", "-n"], ["shellcheck"]], ids=["bash", "shellcheck"])
def test_launch_script_is_clean(folder: Path, checker: list[str]) -> None:
    tools = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [*checker, folder / "launch.sh"], capture_output=True, text=True, check=False, env=tools, encoding="utf-8"
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_both_arms_bring_what_looks_at_the_weights() -> None:
    folder = CASES / "render-trl/control"
    for arm in ("control", "noisy"):
        launch = planned(folder, arm)
        names = {file.path.removeprefix("payload/") for file in launch.files}
        assert {"aqn.json", "data_rows.py", "rlx_trl_train.py", "score.py", *AQN} <= names
        settings = json.loads(content(launch, "payload/aqn.json"))
        assert settings["sigma_start"] == {"control": 0.0, "noisy": 0.05}[arm]
    noise, watch = planned(folder, "noisy").expectations.noise, planned(folder, "control").expectations.watch
    assert noise is not None and set(noise.promise.links) == set(Link) and noise.promise.probed  # type: ignore[union-attr]
    assert watch is not None and watch.probed


def test_a_recipe_without_noise_brings_none() -> None:
    names = {file.path.removeprefix("payload/") for file in planned(CASES / "render-trl/post").files}
    assert names.isdisjoint({*AQN, "aqn.json"} - {"rlx_aqn_events.py"})
    assert {"eval.json", "rlx_eval.py", "data_rows.py"} <= names


# Taken by the planner, the expectations or launch.sh rather than as an argument of TRL.
ELSEWHERE = {
    *("version", "name", "env", "secrets", "seed", "waive", "overrides", "reward", "aqn", "eval.noise", "eval.post"),
    "track",
    "retry",
    *("backend.kind", "backend.version", "backend.workdir", "backend.python", "model.path", "model.arch"),
    *("data.train", "data.val", "data.val_rows", "data.prompt_key", "data.max_prompt_tokens", "data.train_rows"),
    *("eval.metric", "rollout.log_prob_micro_batch_size", "train.epochs", "train.steps"),
}
# Refused by rule where they say anything but the one thing that is run.
ONE_VALUE = {
    *("algorithm.kind", "algorithm.correction", "model.lora", "layout.device", "rollout.engine", "eval.temperature"),
    *("backend.trainer", "backend.totals"),
}


def keys_of(model: type[BaseModel], prefix: str = "") -> set[str]:
    """Dotted keys of two levels, as a recipe has them."""
    found = set()
    for name, field in model.model_fields.items():
        inner: Any = field.annotation
        is_section = not prefix and isinstance(inner, type) and issubclass(inner, BaseModel)
        found |= keys_of(inner, f"{name}.") if is_section else {f"{prefix}{name}"}
    return found


def test_no_key_of_a_recipe_is_passed_over() -> None:
    """Each one becomes an argument, is taken elsewhere, or has its rule."""
    recipe = load_recipe(CASES / "render-trl/post/recipe.yaml").resolve("main").recipe
    sources = {argument.source.removesuffix(".coef") for argument in rendered(recipe)}
    recipes = keys_of(Recipe)
    untold = recipes - sources - ELSEWHERE - ONE_VALUE - set(UNTAKEN)
    assert untold == set()
    assert (ELSEWHERE | ONE_VALUE | set(UNTAKEN)) <= recipes


def test_what_rlx_counts_by_is_what_trl_has() -> None:
    from rlx.backends.trl.checks import find_table

    table = find_table("1.16.0")
    recipe = load_recipe(CASES / "render-trl/aqn/recipe.yaml").resolve("main").recipe
    assert {argument.key for argument in rendered(recipe)} | set(KEPT) <= set(table.defaults)


@pytest.mark.parametrize("version", ["1.15.0", "1.16", "0.9.1"])
def test_another_version_is_refused(version: str) -> None:
    file = load_recipe(CASES / "render-trl/aqn/recipe.yaml", [f"backend.version='{version}'"])
    with pytest.raises(UsageError, match=f"TRL {version}"):
        plan(file.resolve("main"), SITE)
