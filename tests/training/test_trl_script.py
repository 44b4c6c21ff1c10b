"""A script of TRL's users, real TRL on this CPU: a seed counts where the arguments that TRL prints have it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import Laptop
from tests.training.test_trl_on_cpu import PYTHON

PATIENCE_S = 900
HERE = Path(__file__).parent
SEEDS = (11, 12, 13)
pytestmark = [
    pytest.mark.training,
    pytest.mark.timeout(2 * PATIENCE_S),
    pytest.mark.skipif(not PYTHON.exists(), reason="needs the environment with TRL: make engines"),
]


@pytest.fixture(scope="module")
def arms(new_laptop: Callable[[], Laptop], tmp_path_factory: pytest.TempPathFactory) -> tuple[Laptop, Any]:
    """Two arms that read RLX_SEED, and one that does not; each run is awaited before the next one."""
    laptop, folder = new_laptop(), tmp_path_factory.mktemp("scripts")
    start = f"export PYTHON={PYTHON} PROGRAM={HERE / 'train_trl.py'}"
    for arm, settings in {"base": "LR=2e-4", "hot": "LR=4e-4", "deaf": "LR=2e-4 RLX_SEED=42"}.items():
        script = folder / f"{arm}.sh"
        text = f"#!/usr/bin/env bash\n{start} {settings}\nbash {HERE / 'run_trl.sh'}\n"
        script.write_text(text, encoding="utf-8")
        for seed in SEEDS:
            launch = ("launch", "--script", str(script), "--name", "trl", "--host", "local", "--follow")
            laptop.rlx(*launch, "--arm", arm, "--seed", str(seed), timeout_s=PATIENCE_S)
    return laptop, laptop.status("trl", "-a")


def test_each_is_valid_against_what_trl_printed(arms: tuple[Laptop, Any]) -> None:
    _, rows = arms
    assert len(rows) == 3 * len(SEEDS)
    for row in rows:
        assert (row["state"], row["steps_done"], row["verdict"]["status"]) == ("finished", 6, "valid"), row
        assert [finding["id"] for finding in row["verdict"]["findings"]] == ["RLX716"]


def test_three_seeds_count_where_the_script_reads_them(arms: tuple[Laptop, Any]) -> None:
    laptop, rows = arms
    of = {arm: ",".join(row["run_id"] for row in rows if row["arm"] == arm) for arm in ("base", "hot", "deaf")}
    heard = json.loads(laptop.rlx("compare", of["base"], of["hot"], "--json", code=None).stdout)
    assert "RLX913" not in json.dumps(heard)
    deaf = json.loads(laptop.rlx("compare", of["base"], of["deaf"], "--json", code=None).stdout)
    assert "RLX913" in json.dumps(deaf)
