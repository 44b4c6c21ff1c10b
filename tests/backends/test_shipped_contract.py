"""The commands of the recipes that come with rlx, against the verl that they are for: Hydra and verl's own check.

Recipes for verl as it is released are held against four releases. Those for a fork, which name their keys in
`backend.key_source`, are held against the fork's configuration files in `tests/cases/forks` as well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from rlx.backends.protocol import load_backend
from rlx.backends.verl.checks import rendering_of
from rlx.backends.verl.generate_keys import fork_keys
from rlx.backends.verl.overrides import chosen
from rlx.hosts import site_of
from rlx.recipe import ResolvedRecipe, bundled_recipes, load_recipe
from rlx.resources import recipes_folder
from tests.backends import validate_configs
from tests.backends.conftest import VERSIONS
from tests.backends.test_key_contract import arrived
from tests.conftest import CASES
from tests.wheels import INSTALLED, verl_folder

FORKS = CASES / "forks"
BUILT = {recipe.name: load_recipe(recipe.path) for recipe in bundled_recipes()}
FIRST = {name: file.resolve(file.arms[0]).recipe for name, file in BUILT.items()}
PATHS = {recipe.name: recipe.path for recipe in bundled_recipes() if FIRST[recipe.name].backend.kind == "verl"}
# The fork that it needs is no verl of the four.
STOCK = sorted(name for name in PATHS if not name.startswith("nla-"))
ONLY_INSTALLED = {name for name in PATHS if name.startswith("tiny-cpu")}  # rlx's own rollout, for this version
FORKED = sorted(name for name in PATHS if FIRST[name].backend.key_source)


def arms(name: str, *sets: str) -> Iterator[ResolvedRecipe]:
    file = load_recipe(PATHS[name], sets)
    yield from map(file.resolve, file.arms)


def released(name: str, version: str) -> Iterator[ResolvedRecipe]:
    """The recipe for a verl as it is released, whatever it is for."""
    return arms(name, f"backend.version='{version}'", "backend.key_source=null")


def start(resolved: ResolvedRecipe) -> tuple[str, list[str]]:
    """Configuration and overrides, from the command that the plan shows."""
    command = load_backend("verl").plan(resolved, site_of("local")).command
    named = [word.removeprefix("--config-name=") for word in command if word.startswith("--config-name=")]
    first = next(i for i, word in enumerate(command) if "=" in word and not word.startswith("-"))
    return (named or ["ppo_trainer"])[0], list(command[first:])


@pytest.fixture(autouse=True)
def _as_at_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set what a run has in its environment; libraries write below such a HOME, so that it is a folder of the test."""
    # The wheels stay in the cache of the user who runs the tests.
    monkeypatch.setenv("XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"))
    for variable in ("HOME", "RLX_RUN_DIR", "RLX_ATTEMPT_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))


@pytest.mark.parametrize("name", FORKED)
def test_every_override_arrives_in_the_configuration_of_the_fork(name: str) -> None:
    tree = FORKS / ("nla" if name.startswith("nla-") else "aqn") / "config"
    for resolved in arms(name):
        with initialize_config_dir(str(tree), version_base=None):
            config = compose(*start(resolved))
        overrides = [one for one in chosen(rendering_of(resolved)) if not one.key.startswith("hydra.")]
        assert len(overrides) > 30
        assert [one for one in overrides if not arrived(config, one)] == []


def test_recipes_with_the_noise_of_a_fork_are_checked_against_its_keys() -> None:
    """But for the starter, which is to be adapted."""
    noisy = [
        name for name in PATHS if any(one.recipe.aqn and one.recipe.aqn.provider == "builtin" for one in arms(name))
    ]
    assert set(noisy) - {"starter"} == {name for name in FORKED if not name.startswith("nla-")}


KEY_FILES = {
    "nla/keys-fsdp.yaml": "runs/qwen_7b/rl_grpo",
    "nla/keys-megatron.yaml": "runs/qwen_7b/rl_grpo_megatron",
    "aqn/keys-fsdp.yaml": "ppo_trainer",
    "aqn/keys-megatron.yaml": "ppo_megatron_trainer",
}


@pytest.mark.parametrize("path", KEY_FILES)
def test_key_files_are_what_the_script_writes_from_the_fork(path: str) -> None:
    shipped = (recipes_folder() / path).read_text(encoding="utf-8")
    source = shipped.removeprefix("# Every key of ").partition(", for a start from ")[0]
    assert "commit " in source
    assert fork_keys(source, FORKS / Path(path).parent / "config", KEY_FILES[path]) == shipped


@pytest.mark.parametrize("version", VERSIONS)
def test_hydra_and_verl_take_the_command_of_every_arm(version: str) -> None:
    """In 0.7 and later verl's last check asks vLLM for the ranks it takes, which only a recipe with LoRA comes to."""
    starts = {
        f"{name} {resolved.arm}": start(resolved)
        for name in STOCK
        if name not in ONLY_INSTALLED or version == INSTALLED
        for resolved in released(name, version)
    }
    configuration, overrides = starts["qwen2.5-1.5b-gsm8k-npu main"]
    starts["odd"] = configuration, [*overrides, "data.train_batch_size=63"]
    starts["misspelt"] = configuration, [*overrides, "data.train_batch_sizes=64"]
    said = complaints(version, starts)
    assert "must be divisible by minimal possible batch size" in said.pop("odd")
    assert said.pop("misspelt").startswith("ConfigCompositionException")
    without_vllm = {name for name, complaint in said.items() if complaint.startswith("ValueError: vllm version None")}
    assert without_vllm == ({name for name in said if "lora" in name} if version != "0.6.1" else set())
    assert {name: complaint for name, complaint in said.items() if complaint and name not in without_vllm} == {}


def complaints(version: str, starts: dict[str, tuple[str, list[str]]]) -> dict[str, str]:
    """In a process of its own: it imports that version."""
    done = subprocess.run(
        [sys.executable, validate_configs.__file__],
        input=json.dumps(starts),
        env={**os.environ, "PYTHONPATH": str(verl_folder(version).parent)},
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    assert answer.keys() == starts.keys()
    return answer
