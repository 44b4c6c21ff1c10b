"""Recipes for MindSpeed-RL as small changes of one base, what they are rendered to, and runs of that."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.backends.protocol import load_backend
from rlx.model import LaunchPlan, Site
from rlx.recipe import ResolvedRecipe, load_recipe
from tests.backends.conftest import merge
from tests.backends.mindspeed_rl.running import Run
from tests.conftest import CASES

BASE: dict[str, Any] = {
    "version": 1,
    "name": "case",
    "extends": str(CASES / "preflight/bases/mindspeed-rl.yaml"),
}
MakeRecipe = Callable[..., ResolvedRecipe]
STAND_IN = Path(__file__).with_name("stand_in")
SMALL: dict[str, Any] = {
    "backend": {"workdir": str(STAND_IN), "python": sys.executable},
    "train": {"batch_size": 2, "mini_batch_size": 2, "micro_batch_size": 1, "steps": 4},
    "layout": {"devices_per_node": 2, "tp": 1, "pp": 1},
    "overrides": {"actor_config.load": "/w", "rl_config.num_cpus_for_placement_group": 0},
}
Start = Callable[..., Run]


@pytest.fixture
def recipe(tmp_path: Path) -> MakeRecipe:
    """recipe({"train": {"steps": 5}}): the base with maps merged in, resolved for its only arm."""

    def make(*changes: dict[str, Any]) -> ResolvedRecipe:
        document = deepcopy(BASE)
        for change in changes:
            merge(document, change)
        path = tmp_path / "recipe.yaml"
        path.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
        return load_recipe(path).resolve("main")

    return make


def planned(resolved: ResolvedRecipe, site: Site | None = None) -> LaunchPlan:
    return load_backend("mindspeed-rl").plan(resolved, site or Site())


def file_of(launch: LaunchPlan, path: str) -> str:
    return next(file.content for file in launch.files if file.path == path)


def config_of(resolved: ResolvedRecipe) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(file_of(planned(resolved), "config/mindspeed_rl.yaml"))
    return document


def on_the_cpu(plan: LaunchPlan) -> LaunchPlan:
    """Its evaluation asks for no NPU."""
    files = [
        replace(file, content=json.dumps(json.loads(file.content) | {"device": "cpu"}))
        if file.path == "payload/eval.json"
        else file
        for file in plan.files
    ]
    return replace(plan, files=tuple(files))


@pytest.fixture(scope="session")
def real_ray() -> None:
    """Tell that a test starts a Ray, which takes many seconds; see tests/sorting.py."""


@pytest.fixture
def start(real_ray: None, recipe: MakeRecipe, tmp_path: Path) -> Iterator[Start]:
    """start({...}): launch.sh runs as supervise.sh would run it, in a session of its own."""
    runs: list[Run] = []

    def launch(*changes: dict[str, Any], edit: Callable[[str], str] = str, on_cpu: bool = False) -> Run:
        plan = planned(recipe(SMALL, *changes), Site())
        folder = tmp_path / f"run-{os.getpid()}-{len(runs)}"
        runs.append(Run.begin(on_the_cpu(plan) if on_cpu else plan, folder, {"RLX_DEVICES": "0,1"}, edit))
        return runs[-1]

    yield launch
    for run in runs:
        run.discard()
