"""MindSpeed-RL's own classes and validator on what rlx writes. Needs a checkout, named in RLX_MINDSPEED_RL.

git clone https://github.com/Ascend/MindSpeed-RL
RLX_MINDSPEED_RL=$PWD/MindSpeed-RL pytest tests/backends/mindspeed_rl
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlx.backends.mindspeed_rl.generate_keys import generate
from rlx.backends.mindspeed_rl.keys import KEYS_FOLDER, read_config_classes
from rlx.planning.rules.rule_table import all_rules
from rlx.recipe import load_recipe
from tests.backends.mindspeed_rl.conftest import file_of, planned
from tests.conftest import CASES, REPOSITORY

CHECKOUT = os.environ.get("RLX_MINDSPEED_RL", "")
pytestmark = pytest.mark.skipif(not CHECKOUT, reason="RLX_MINDSPEED_RL names no checkout of MindSpeed-RL")
RULES = {rule.id: rule for rule in all_rules() if rule.backend == "mindspeed-rl"}
# What its validator refuses; the other rules are about what fails later, or about what rlx itself cannot do.
REFUSED_EARLY = {"RLX153", "RLX270", "RLX271", "RLX272", "RLX273", *(f"RLX{number}" for number in range(280, 288))}
CASE_FOLDERS = sorted(folder for folder in (CASES / "preflight").iterdir() if folder.name.split("-")[0] in RULES)
WRITTEN = [folder for folder in CASE_FOLDERS if folder.name not in ("RLX151-breaks-file", "RLX156-breaks-rloo")]
SHIPPED = sorted((REPOSITORY / "recipes").glob("*-mindspeed-*.yaml"))


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, str]:
    """Recipe -> what MindSpeed-RL says against its configuration, "" if nothing."""
    recipes = [*(folder / "recipe.yaml" for folder in WRITTEN), *SHIPPED]
    orders = []
    for number, path in enumerate(recipes):
        resolved = load_recipe(path).resolve("main")
        folder = tmp_path_factory.mktemp(f"config{number}")
        (folder / "mindspeed_rl.yaml").write_text(
            file_of(planned(resolved), "config/mindspeed_rl.yaml"), encoding="utf-8"
        )
        orders.append({"folder": str(folder), "kind": resolved.recipe.algorithm.kind})
    home = str(tmp_path_factory.mktemp("home"))
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("validator.py"), CHECKOUT],
        input=json.dumps(orders),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": home, "RAY_AUTH_MODE": "disabled"},
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(recipes, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("folder", WRITTEN, ids=lambda folder: folder.name)
def test_the_rules_and_the_real_validator_agree(folder: Path, answers: dict[Path, str]) -> None:
    id, kind = folder.name.split("-")[:2]
    said = answers[folder / "recipe.yaml"]
    if kind == "breaks" and id in REFUSED_EARLY:
        assert said
    elif kind == "passes":
        assert said == ""


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_the_recipes_that_come_along_are_accepted(path: Path, answers: dict[Path, str]) -> None:
    assert answers[path] == ""


def test_the_key_table_is_what_the_checkout_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlx.backends.mindspeed_rl.generate_keys.KEYS_FOLDER", tmp_path)
    folder = Path(CHECKOUT, "mindspeed_rl/config_cls")
    written = generate("master", folder).read_text(encoding="utf-8")
    assert written == (KEYS_FOLDER / "master.json").read_text(encoding="utf-8")
    assert read_config_classes(folder)["RLConfig"]["n_samples_per_prompt"] == 1
