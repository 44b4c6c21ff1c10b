"""A small valid recipe, and how to load a variation of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rlx.recipe import RecipeFile, load_recipe

RECIPE = """\
version: 1
name: exp
backend: {kind: verl, version: "0.7.1"}
model: {path: /m}
data: {train: /d/a.parquet, val: /d/b.parquet, max_prompt_tokens: 512, max_response_tokens: 512}
reward: gsm8k
train: {batch_size: 128, mini_batch_size: 32, micro_batch_size: 4, lr: 5e-7}
rollout: {n: 5, log_prob_micro_batch_size: 4}
layout: {device: npu, devices_per_node: 8}
overrides: {trainer.project_name: p, trainer.save_freq: -1}
control: baseline
arms:
  baseline: {}
  aqn: {aqn: {sigma_start: 0.05, sigma_end: 0.0005, stages: 10}}
  fast-1.5: {train: {lr: 1e-5}}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


@pytest.fixture
def load(recipe: Path) -> Callable[..., RecipeFile]:
    return lambda *sets: load_recipe(recipe, sets)
