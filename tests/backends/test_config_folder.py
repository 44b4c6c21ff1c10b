"""The keys of a configuration folder are those that Hydra itself finds in it, and a hostile folder does no harm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from syrupy.assertion import SnapshotAssertion

from rlx.backends.verl.config_folder import read_config_folder
from rlx.backends.verl.keys import TRAINERS
from rlx.errors import UsageError
from tests.backends.conftest import VERSIONS, config_tree
from tests.wording import settled


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def keys_of_hydra(folder: Path, name: str) -> set[str]:
    with initialize_config_dir(str(folder), version_base=None):
        return set(leaves(OmegaConf.to_container(compose(name)), ""))


def leaves(tree: Any, prefix: str) -> list[str]:
    if not isinstance(tree, dict) or not tree:
        return [prefix[:-1]]
    return [leaf for key, value in tree.items() for leaf in leaves(value, f"{prefix}{key}.")]


def keys_of_rlx(folder: Path, name: str) -> set[str]:
    return {key for key in read_config_folder(folder, name) if "@" not in key}


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("version", VERSIONS)
def test_sources_alone_give_the_keys_that_hydra_composes(version: str, trainer: str, tmp_path: Path) -> None:
    sources = tmp_path / "config"
    sources.mkdir()
    for path in config_tree(version).iterdir():
        if not path.name.startswith("_generated"):
            (sources / path.name).symlink_to(path)
    ours = keys_of_rlx(sources, trainer)
    assert ours - {"model_engine"} == keys_of_hydra(sources, trainer) - {"model_engine"}


COMPOSITIONS: dict[str, dict[str, str]] = {
    "relative-groups": {
        "main": "defaults: [{server: apache}, _self_]\na: 1",
        "server/apache": "defaults: [{/db: mysql}, {sub: x}, _self_]\np: 1",
        "db/mysql": "q: {deep: 1, none: {}}",
        "server/sub/x": "r: 1",
    },
    "packages": {
        "main": "defaults: [{server@w.v: apache}, _self_]\na: 1",
        "server/apache": "defaults: [{/db@k: mysql}, {/db@_global_.m: mysql}, {/db@_here_: mysql}, base, /other]\n",
        "db/mysql": "q: 1",
        "server/base": "b: 1",
        "other": "o: 1",
    },
    "headers": {
        "main": "defaults: [{server: [a, b]}, {optional gone: x}, {n: null}, {where/deep: c}, x/y, _self_]\na: 1",
        "server/a": "# @package foo.bar\np: 1",
        "server/b": "# by somebody\n# @package _global_\np2: 1",
        "where/deep/c": "z: 1",
        "x/y": "y: 1",
    },
    "packages-of-files": {
        "main": "defaults: [server/a@w.v, b@k, server/a, _self_]\nm: 1",
        "server/a": "defaults: [/b@inner, c]\np: 1",
        "server/c": "r: 1",
        "b": "q: 1",
    },
    "choices": {
        "main": "defaults: [base, {override engine: big}, _self_]\na: 1",
        "base": "defaults: [{engine: small}, {part@p: '${engine}_part'}]\n",
        "engine/small": "# @package _global_\ne: 1",
        "engine/big": "# @package _global_\ne: 1\nbig: 1",
        "part/small_part": "s: 1",
        "part/big_part": "l: 1",
    },
}


@pytest.mark.parametrize("case", COMPOSITIONS)
def test_defaults_lists(case: str, tmp_path: Path) -> None:
    folder = written(tmp_path, COMPOSITIONS[case])
    groups = {"server", "server@w.v", "where/deep", "engine", "n", "gone"}
    assert keys_of_rlx(folder, "main") - groups == keys_of_hydra(folder, "main")


def test_of_a_named_configuration_only_what_it_includes_counts(tmp_path: Path) -> None:
    """As of a fork's own start, which takes less than the trainer of its engine; Hydra would refuse the rest."""
    files = {"ppo_megatron_trainer": "big: 1", "ppo_trainer": "a: 1\nb: {c: 1}", "runs/own": OWN_START}
    folder = written(tmp_path, files)
    assert read_config_folder(folder, "ppo_megatron_trainer", "runs/own") == {"a": 2, "b": None}
    assert keys_of_hydra(folder, "runs/own") == {"a", "b"}
    assert read_config_folder(folder, "ppo_megatron_trainer", "runs/other") == {"big": 1}


OWN_START = "# @package _global_\ndefaults: [/ppo_trainer, _self_]\na: 2\nb: null"


def test_numbers_are_those_of_hydra(tmp_path: Path) -> None:
    written(tmp_path, {"ppo_trainer": "lr: 1e-6\nmany: 2E3\ntext: 1e-6x\nwhole: 7"})
    keys = read_config_folder(tmp_path, "ppo_trainer")
    with initialize_config_dir(str(tmp_path), version_base=None):
        assert OmegaConf.to_container(compose("ppo_trainer")) == keys
    assert keys["lr"] == 1e-6


BOMB = "a: &a {k0: 0}\n" + "".join(f"b{n}: &b{n} {{<<: [*a, *a], k{n}: *a}}\n" for n in range(15))


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (BOMB, "ppo_trainer.yaml:1: a: &a: anchors and aliases are not read; repeat the value"),
        ("a: {<<: {b: 1}}", "ppo_trainer.yaml:1: a: merge keys (<<) are not read; repeat the entries"),
        ("a: !!python/name:os.system x", "tags are not read (tag:yaml.org,2002:python/name:os.system)"),
        ("a: 1\nb: 2\na: 3", "ppo_trainer.yaml:3: a: appears twice, first in line 1; keep one"),
        ("a: " + "[" * 100_000, "is nested more than 64 levels deep"),
        ("a: [" + "1," * 300_000 + "]", "has more than 20000 values, so it is no configuration"),
        ("a: " + "x" * (5 << 20), "is larger than 4 MiB"),
        ("a: 1\n--- \nb: 1", "ppo_trainer.yaml:2: a second document starts here; a configuration file holds one"),
    ],
    ids=["bomb", "merge", "tag", "twice", "deep", "many", "large", "two"],
)
def test_a_hostile_file_is_refused(text: str, refusal: str, tmp_path: Path) -> None:
    written(tmp_path, {"ppo_trainer": text})
    with pytest.raises(UsageError) as caught:
        read_config_folder(tmp_path, "ppo_trainer")
    assert refusal in caught.value.message


DAPO = {
    "recipe/dapo/config/dapo_trainer": "hydra: {searchpath: ['file://verl/trainer/config']}\n"
    "defaults: [ppo_trainer, _self_]\ndata: {gen_batch_size: '${data.train_batch_size}'}\n"
    "algorithm: {filter: {enable: no}}",
    "verl/trainer/config/ppo_trainer": "defaults: [{actor@actor: small}, _self_]\ndata: {train_batch_size: 1}",
    "verl/trainer/config/actor/small": "lr: 1",
}


def test_the_search_path_is_followed_as_from_the_root_of_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = written(tmp_path, DAPO)
    monkeypatch.chdir(checkout)
    config = checkout / "recipe/dapo/config"
    expected = keys_of_hydra(config, "dapo_trainer")
    assert "data.gen_batch_size" in expected and "actor.lr" in expected
    monkeypatch.chdir("/")
    for source in (config, checkout):
        assert {key for key in read_config_folder(source, "ppo_trainer", "dapo_trainer") if "@" not in key} == expected


def test_what_a_host_sent_has_both_configurations(tmp_path: Path) -> None:
    own = "verl/trainer/config/"
    files = {name.removeprefix(own).replace("recipe/dapo/config", "_start"): text for name, text in DAPO.items()}
    keys = read_config_folder(written(tmp_path, files), "ppo_trainer", "dapo_trainer")
    assert {"data.gen_batch_size", "data.train_batch_size", "actor.lr", "algorithm.filter.enable"} <= keys.keys()


@pytest.mark.parametrize(
    "entry", ["file:///etc", "file://../../outside", "s3://bucket/x", "${oc.env:HOME}", "file://gone", "", 7]
)
def test_a_search_path_that_leads_elsewhere_adds_nothing(entry: object, tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    written(tmp_path, {"outside/secret": "stolen: 1", "inside/main": f"hydra: {{searchpath: [{entry!r}]}}\n"
                       "defaults: [secret, _self_]\na: 1"})  # fmt: skip
    assert read_config_folder(folder, "ppo_trainer", "main") == {"a": 1}


@pytest.mark.parametrize("path", ["7", "{a: b}", "[[1], {a: 2}, 3]", "a"])
def test_a_search_path_of_another_form_adds_nothing(path: str, tmp_path: Path) -> None:
    folder = written(tmp_path, {"main": f"hydra: {{searchpath: {path}}}\na: 1", "other": "hydra: 3\nb: 1"})
    assert read_config_folder(folder, "ppo_trainer", "main") == {"a": 1}
    assert read_config_folder(folder, "ppo_trainer", "other") == {"b": 1}


def test_search_paths_that_include_each_other_end(tmp_path: Path, wording: SnapshotAssertion) -> None:
    files = {
        "main": "hydra: {searchpath: ['file://more']}\ndefaults: [a]",
        "more/a": "defaults: [b]",
        "more/b": "defaults: [a]",
    }
    with pytest.raises(UsageError) as refused:
        read_config_folder(written(tmp_path, files), "ppo_trainer", "main")
    assert settled(refused.value.message, {str(tmp_path): "folder"}) == wording
