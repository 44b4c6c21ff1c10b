"""Recipes as small changes of one base, and the real configuration trees of the versions of verl."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.recipe import ResolvedRecipe, load_recipe
from tests.wheels import DEVELOPMENT, verl_folder

RELEASED = ("0.6.1", "0.7.1", "0.8.0", "0.9.1")
VERSIONS = (*RELEASED, DEVELOPMENT)

BASE: dict[str, Any] = {
    "version": 1,
    "name": "base",
    "backend": {"kind": "verl", "version": "0.9.1", "engine": "fsdp"},
    "model": {"path": "/models/qwen"},
    "data": {
        "train": "/data/train.parquet",
        "val": "~/data/test.parquet",
        "train_rows": 7473,
        "val_rows": 1319,
        "max_prompt_tokens": 1024,
        "max_response_tokens": 512,
    },
    "reward": "gsm8k",
    "train": {"batch_size": 128, "mini_batch_size": 32, "micro_batch_size": 4, "epochs": 2, "lr": 5.0e-7},
    "rollout": {"engine": "vllm", "n": 5, "log_prob_micro_batch_size": 4},
    "layout": {"device": "npu", "devices_per_node": 8},
    "eval": {"every": 20},
}
AQN = {"sigma_start": 0.05, "sigma_end": 0.0005, "stages": 10}
CPU = {
    "backend": {"engine": "fsdp2"},
    "model": {"dtype": "float32"},
    "rollout": {"engine": "cpu"},
    "layout": {"device": "cpu", "devices_per_node": 1},
}

MakeRecipe = Callable[..., ResolvedRecipe]


@pytest.fixture
def recipe(tmp_path: Path) -> MakeRecipe:
    """recipe({"train": {"steps": 5}}, {"seed": 2}): the base with maps merged in, resolved for its only arm."""
    return lambda *changes: resolved(tmp_path, *changes)


def resolved(folder: Path, *changes: dict[str, Any], arm: str = "main") -> ResolvedRecipe:
    document = deepcopy(BASE)
    for change in changes:
        merge(document, change)
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
    return load_recipe(path).resolve(arm)


def merge(document: dict[str, Any], change: dict[str, Any]) -> None:
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(document.get(key), dict) and key != "overrides":
            merge(document[key], value)
        else:
            document[key] = deepcopy(value)


def config_tree(version: str) -> Path:
    return verl_folder(version) / "trainer/config"
