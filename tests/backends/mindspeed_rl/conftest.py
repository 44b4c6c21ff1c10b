"""Recipes for MindSpeed-RL as small changes of one base, and what they are rendered to."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.backends import load_backend
from rlx.plan import LaunchPlan, Site
from rlx.recipe import ResolvedRecipe, load_recipe
from tests.backends.conftest import merge
from tests.conftest import CASES

BASE: dict[str, Any] = {
    "version": 1,
    "name": "case",
    "extends": str(CASES / "preflight/bases/mindspeed-rl.yaml"),
}
MakeRecipe = Callable[..., ResolvedRecipe]


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
