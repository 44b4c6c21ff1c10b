"""What rlx renders is held against the released configuration trees, composed by Hydra itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from rlx.backends.shared.overrides import Override
from rlx.backends.verl.backend import check
from rlx.backends.verl.checks import rendering_of
from rlx.backends.verl.generate_keys import generate
from rlx.backends.verl.keys import KEYS_FOLDER, TRAINERS, find_table
from rlx.backends.verl.overrides import chosen
from rlx.model import Severity
from tests.backends.conftest import AQN, CPU, VERSIONS, MakeRecipe, config_tree
from tests.wheels import DEVELOPMENT

ENGINES = ("fsdp", "fsdp2", "megatron")
EVERYTHING: dict[str, Any] = {
    "model": {"dtype": "float16", "lora": {"rank": 8, "alpha": 16, "targets": ["q_proj"]}},
    "reward": {"path": "score.py", "kwargs": {"strict": True, "words": ["a b", "it's"]}},
    "algorithm": {"kind": "ppo", "kl": {"place": "loss", "coef": 0.001}},
    "train": {"steps": 29, "save_every": 10},
    "aqn": {**AQN, "provider": "builtin", "targets": ["post_attention_layernorm"], "exclude": ["input"]},
    "eval": {"n": 4, "temperature": 0.7, "noise": True},
    "overrides": {"trainer.log_val_generations": 3, "+trainer.note": "a=b, {c}"},
}
OTHERWISE: dict[str, Any] = {
    "algorithm": {"kind": "rloo", "kl": {"place": "reward", "coef": 0.01, "estimator": "kl"}},
    "rollout": {"engine": "sglang", "top_k": 20, "tp": 2, "ep": 4},
    "layout": {"device": "cuda", "cp": 2},
    "eval": {"every": None, "before_train": False},
}
MEGATRON_SPLITS = {"layout": {"tp": 4, "pp": 2, "ep": 2, "cp": 2}}
# Megatron has no adapters in 0.6.
NO_LORA = {"model": {"lora": None}}


def compositions() -> list[Any]:
    cases = {
        f"{version}-{engine}-{name}": (version, engine, features)
        for version in VERSIONS
        for engine in ENGINES
        for name, features in {"everything": EVERYTHING, "otherwise": OTHERWISE}.items()
    }
    cases["0.9.1-cpu"] = ("0.9.1", "fsdp2", CPU | {"model": {"dtype": "float32", "lora": {"rank": 4, "alpha": 8}}})
    return [pytest.param(*case, id=name) for name, case in cases.items()]


@pytest.mark.parametrize(("version", "engine", "features"), compositions())
def test_hydra_accepts_every_override(
    version: str, engine: str, features: dict[str, Any], recipe: MakeRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = MEGATRON_SPLITS if engine == "megatron" else {}
    adapters = NO_LORA if (version, engine) == ("0.6.1", "megatron") else {}
    resolved = recipe(features, {"backend": {"version": version, "engine": engine}}, splits, adapters)
    rendering = rendering_of(resolved)
    overrides = chosen(rendering)
    config = composed(version, rendering.config_name, overrides)
    for variable in ("HOME", "RLX_RUN_DIR", "RLX_ATTEMPT_DIR"):
        monkeypatch.setenv(variable, f"/there/{variable}")
    for override in overrides:
        if not override.key.startswith(("hydra.", "model_engine")):
            assert arrived(config, override), override
    assert config.actor_rollout_ref.actor.strategy == engine
    assert [finding for finding in check(resolved) if finding.severity is Severity.ERROR] == []


@pytest.mark.parametrize("engine", ENGINES)
def test_main_has_every_key_that_is_rendered(engine: str, recipe: MakeRecipe) -> None:
    """By its table alone, for those who have no checkout that Hydra could compose."""
    splits = MEGATRON_SPLITS if engine == "megatron" else {}
    for features in (EVERYTHING, OTHERWISE):
        resolved = recipe(features, {"backend": {"version": DEVELOPMENT, "engine": engine}}, splits)
        table = rendering_of(resolved).table
        assert table.version == DEVELOPMENT
        assert [finding for finding in check(resolved) if finding.severity is Severity.ERROR] == []
        unknown = {one.key for one in chosen(rendering_of(resolved)) if not one.prefix and one.key not in table}
        assert unknown == set()


def composed(version: str, name: str | None, overrides: tuple[Override, ...]) -> DictConfig:
    with initialize_config_dir(str(config_tree(version)), version_base=None):
        return compose(name or "ppo_trainer", [override.argument() for override in overrides])


def arrived(config: DictConfig, override: Override) -> bool:
    value = OmegaConf.select(config, override.key)
    if OmegaConf.is_config(value):
        value = OmegaConf.to_container(value)
    if override.verbatim and isinstance(override.value, str):
        # What it interpolates is looked up in the whole configuration.
        OmegaConf.update(config, "written", override.value, force_add=True)
        return bool(value == config.written)
    return bool(value == plain(override.value))


def plain(value: object) -> object:
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("version", VERSIONS)
def test_shipped_tables_are_what_the_release_says(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = config_tree(version)
    monkeypatch.setattr("rlx.backends.verl.generate_keys.KEYS_FOLDER", tmp_path)
    for written in generate(tree):
        assert written.parent.name == version
        assert written.read_text(encoding="utf-8") == (KEYS_FOLDER / version / written.name).read_text(encoding="utf-8")


@pytest.mark.parametrize("version", ["0.9.1", DEVELOPMENT])
def test_a_folder_gives_the_keys_of_the_table(version: str, recipe: MakeRecipe) -> None:
    """`backend.key_source` names it, whatever the version is called."""
    tree = {"key_source": str(config_tree(version)), "version": "main", "engine": "megatron"}
    rendering = rendering_of(recipe({"backend": tree}, NO_LORA))
    assert rendering.table.defaults == find_table(version, TRAINERS[1]).defaults
    assert [one for one in check(rendering.resolved) if one.severity is Severity.ERROR] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_megatron_without_adapters_is_refused_where_they_do_not_exist(version: str, recipe: MakeRecipe) -> None:
    lora = {"model": {"lora": {"rank": 8, "alpha": 16}}}
    findings = check(recipe(lora, {"backend": {"version": version, "engine": "megatron"}}))
    errors = {finding.id for finding in findings if finding.severity is Severity.ERROR}
    assert errors == ({"RLX010"} if version == "0.6.1" else set())


def test_there_is_a_table_of_each_trainer() -> None:
    for folder in KEYS_FOLDER.iterdir():
        assert {path.stem for path in folder.iterdir()} == set(TRAINERS)
