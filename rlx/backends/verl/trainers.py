"""List the trainers of verl whose steps rlx can count, the programs that start them, and the keys that DAPO adds.

`sync` generates once for each step. `dapo` generates until enough groups have an advantage: a trainer of its own in the
DAPO recipe, which is in verl's checkout up to 0.7.0 and in the repository verl-recipe since; 0.9 has the same built
into its own trainer. Sources: recipe/dapo/main_dapo.py, verl 0.9.1 trainer/ppo/v1/replay_buffer.py.
The keys that DAPO adds: recipe/dapo/config/dapo_trainer.yaml of verl 0.6.1 and 0.7.0, dapo/config/dapo_trainer.yaml of
verl-recipe (since 8f9e7ac under `reward`, as verl has it since 0.7.1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rlx.backends.shared.rendering import KeyTable
from rlx.backends.verl.keys import release

if TYPE_CHECKING:
    from rlx.recipe.schema import Backend, Recipe

SYNC, DAPO, DECLARED = "sync", "dapo", "declared"
MAIN_PPO, MAIN_DAPO = "verl.trainer.main_ppo", "recipe.dapo.main_dapo"
# The NLA fork's program trains as main_ppo does (rules/nla.py).
_PROGRAMS = (
    (SYNC, re.compile(r"(?:.*\.)?verl\.trainer\.(?:main_ppo|main_ppo_v0|nla_main)")),
    (DAPO, re.compile(r"(?:.*\.)?dapo\.main_dapo")),
)
_FILTERS_ITSELF = (0, 9)
CONFIG, MEGATRON_CONFIG = "dapo_trainer", "dapo_megatron_trainer"
_FILTER = "algorithm.filter_groups"
_ALWAYS: Mapping[str, Any] = {
    "data.gen_batch_size": "${data.train_batch_size}",
    f"{_FILTER}._target_": "verl.trainer.config.FilterGroupsConfig",
    f"{_FILTER}.enable": False,
    f"{_FILTER}.metric": None,
    f"{_FILTER}.max_num_gen_batches": 0,
}
DAPO_KEYS = _ALWAYS.keys()
_OVERLONG = {"enable": False, "len": 0, "penalty_factor": 0.0, "log": False}
_BEFORE = {f"reward_model.overlong_buffer.{name}": value for name, value in _OVERLONG.items()}
_SINCE = {
    **{f"reward.reward_kwargs.overlong_buffer_cfg.{name}": value for name, value in _OVERLONG.items()},
    "reward.reward_kwargs.max_resp_len": None,
}
_MANAGERS = ("reward_model.reward_manager", "reward.reward_manager.name")


def is_dapo_key(key: str) -> bool:
    """Tell whether a key, or a section, is one that DAPO adds in some version."""
    return any(known == key or known.startswith(f"{key}.") for known in (*_ALWAYS, *_BEFORE, *_SINCE))


def names(version: str) -> tuple[str, ...]:
    """List what `backend.trainer` may be with this version."""
    del version  # all that rlx has key tables for have both
    return SYNC, DAPO, DECLARED


def trainer_of_program(program: str) -> str | None:
    """Return the trainer that a program starts, a module or a file; None for one that rlx does not know."""
    module = program.removesuffix(".py").replace("/", ".")
    return next((name for name, form in _PROGRAMS if form.fullmatch(module)), None)


def trainer_of(backend: Backend) -> str | None:
    """Return the trainer that a recipe names, or else its program's; None for a program that rlx does not know."""
    if backend.trainer is not None:
        return backend.trainer
    return trainer_of_program(backend.entrypoint) if backend.entrypoint else SYNC


def program_of(backend: Backend, version: str) -> str:
    """Return the program that starts: the recipe's, or that of its trainer."""
    if backend.entrypoint:
        return str(backend.entrypoint)
    return MAIN_DAPO if backend.trainer == DAPO and release(version) < _FILTERS_ITSELF else MAIN_PPO


def is_dapo_recipe(recipe: Recipe, version: str) -> bool:
    """Tell whether the DAPO recipe's own trainer runs, and not verl's own with a filter of groups."""
    return trainer_of(recipe.backend) == DAPO and trainer_of_program(program_of(recipe.backend, version)) == DAPO


def config_of(recipe: Recipe, version: str) -> str | None:
    """Return the configuration that a program starts from, where it is not that of main_ppo."""
    backend = recipe.backend
    if backend.config_name or not is_dapo_recipe(recipe, version):
        return backend.config_name
    return MEGATRON_CONFIG if backend.engine == "megatron" else CONFIG


def is_own_program(backend: Backend, version: str) -> bool:
    """Tell whether verl's main_ppo starts, which rlx's noise and seeds were shown with."""
    return program_of(backend, version) == MAIN_PPO


def with_dapo_keys(table: KeyTable, version: str) -> KeyTable:
    """Extend the table for a start by main_dapo. Around 0.7.1 both forms of the recipe were in use."""
    added = dict(_ALWAYS)
    if release(version) < (0, 8):
        added |= _BEFORE
    if _MANAGERS[1] in table:
        added |= _SINCE
    manager = table.first(*reversed(_MANAGERS))
    return KeyTable.of(table.version, {**table.defaults, manager: "dapo", **added})
