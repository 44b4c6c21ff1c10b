"""What Hydra composes of the cases of modes with the verl that is installed here is what their files say."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from rlx.backends.verl.log.setting_traces import modes
from tests.evidence.composed_modes import NAMES, READ, read_case, write_configuration
from tests.wheels import INSTALLED, verl_folder

PLAIN = "ppo_trainer"


def composed(trainer: str, overrides: tuple[str, ...] = ()) -> Any:
    """Compose with verl's own trainers; those below `experimental` stand beside the folder of the plain one."""
    sources = verl_folder(INSTALLED)
    found = next(path.parent for path in sources.rglob(f"{trainer}.yaml") if path.parent.name == "config")
    search = f"hydra.searchpath=[file://{sources}/trainer/config]"
    with initialize_config_dir(str(found), version_base=None):
        return compose(trainer, [*overrides, search])


def leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def cut(found: Mapping[str, Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    usual = dict(leaves(plain))
    tree: dict[str, Any] = {}
    for key, value in leaves(found):
        if key in READ or key not in usual or usual[key] != value:
            *path, name = key.split(".")
            section = tree
            for each in path:
                section = section.setdefault(each, {})
            section[name] = value
    return tree


@pytest.fixture(scope="module")
def plain() -> Any:
    return OmegaConf.to_container(composed(PLAIN))


@pytest.mark.parametrize("name", NAMES)
def test_hydra_composes_what_the_case_says(name: str, plain: Any) -> None:
    case = read_case(name)
    config = composed(case.trainer, case.overrides)
    found = cut(OmegaConf.to_container(config), plain)
    if os.environ.get("UPDATE_CASES"):
        write_configuration(name, found)
    assert found == read_case(name).configuration


@pytest.mark.parametrize("name", NAMES)
def test_modes_are_those_of_the_whole_configuration_in_both_forms(name: str) -> None:
    """As Hydra saves it, with its interpolations, and as verl prints it, without."""
    case = read_case(name)
    config = composed(case.trainer, case.overrides)
    for resolved in (False, True):
        found = OmegaConf.to_container(config, resolve=resolved)
        assert {mode.name for mode in modes(found)} == case.modes
