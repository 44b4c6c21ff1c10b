"""verl on two nodes: launch.sh of each on this machine, joined in one Ray, trained for real."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from rlx.backends import load_backend
from rlx.plan import Site
from rlx.recipe import load_recipe
from tests.backends.mindspeed_rl.running import Nodes
from tests.training.conftest import RECIPE

pytestmark = pytest.mark.training


def test_verl_trains_on_the_devices_of_both_nodes(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(
        f"version: 1\nname: two\nextends: {RECIPE}\nlayout: {{nodes: 2}}\ntrain: {{steps: 3}}\neval: {{every: 3}}\n"
    )
    site = Site(path_prefix=(str(Path(sys.executable).parent),))
    plan = load_backend("verl").plan(load_recipe(path).resolve("aqn"), site)
    with Nodes(tmp_path) as nodes:
        # The model and the data lie in the real home.
        worker, head = (nodes.begin(plan, number, HOME=os.environ["HOME"]) for number in (1, 0))
        assert head.end() == 0, head.log
        assert worker.end() == 0, worker.log
    steps = [json.loads(line)["step"] for line in (head.attempt / "metrics.jsonl").read_text().splitlines()]
    assert steps[-1] == 3
    assert {file.name for file in (head.attempt / "validation").iterdir()} == {"0.jsonl", "3.jsonl"}
    assert not (worker.attempt / "metrics.jsonl").exists() and not (worker.attempt / "validation").exists()
    assert [run.left() for run in (head, worker)] == [[], []]
