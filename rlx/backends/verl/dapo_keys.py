"""The keys that the DAPO recipe adds to verl's own, where its configuration cannot be read.

Source: recipe/dapo/config/dapo_trainer.yaml of verl 0.6.1 and 0.7.0, dapo/config/dapo_trainer.yaml of verl-recipe
(since 8f9e7ac under `reward`, as verl has it since 0.7.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlx.backends.shared.key_table import KeyTable
from rlx.backends.verl.keys import release

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


def with_dapo_keys(table: KeyTable, version: str) -> KeyTable:
    """The table of a start by main_dapo. Around 0.7.1 both forms of the recipe were in use."""
    added = dict(_ALWAYS)
    if release(version) < (0, 8):
        added |= _BEFORE
    if _MANAGERS[1] in table:
        added |= _SINCE
    manager = table.first(*reversed(_MANAGERS))
    return KeyTable.of(table.version, {**table.defaults, manager: "dapo", **added})
