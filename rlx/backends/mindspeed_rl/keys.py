"""Look up the keys that a section of MindSpeed-RL's YAML takes, and the one that a misspelt key probably means.

A section is read by a class, whose keys lie in `keys/<version>.json` or in the source that was found on the host.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rlx.backends.mindspeed_rl.config_classes import Classes, read_config_classes
from rlx.backends.shared.key_table import KeyTable
from rlx.errors import UsageError

KEYS_FOLDER = Path(__file__).parent / "keys"
SHARED = "megatron_training"
ROLES = ("actor_config", "critic_config", "ref_config", "reward_config", "vit_config")
SECTIONS = {
    SHARED: "MegatronConfig",
    **dict.fromkeys(ROLES, "MegatronConfig"),
    "rl_config": "RLConfig",
    "generate_config": "GenerateConfig",
    "profiler_config.integrated": "ProfilerConfig",
    "msprobe_config": "MsprobeConfig",
}
# `model.NAME.key` describes a model; `model` of a section names one.
# What the classes take as a map without listing what is in it.
_MAP_KEY = re.compile(r"(rl_config\.(?:\w+_resource(?=\.num_npus$)|integrated_mode_config))\.\w+")
_MODEL_KEY = re.compile(r"model\.[^.]+\.(.+)", re.DOTALL)


def shipped_versions() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in KEYS_FOLDER.glob("*.json")))


def find_table(version: str) -> KeyTable:
    """The table of `version`, else of the release of that name. Raises UsageError for any other."""
    known = next((name for name in shipped_versions() if version == name or version.startswith(f"{name}.")), None)
    if known is None:
        known = next((name for name in shipped_versions() if name.startswith(f"{version}.")), None)
    if known is None:
        raise UsageError(
            f"backend.version: rlx has no key table for MindSpeed-RL {version}",
            f"use one of {', '.join(shipped_versions())}, or name mindspeed_rl/config_cls of your checkout in "
            "backend.key_source",
        )
    return _shipped(known)


def read_key_source(folder: Path, version: str = "") -> KeyTable:
    """The table of a checkout's configuration classes. Raises UsageError if there are none."""
    return table_of_classes(version or str(folder), read_config_classes(folder))


def table_of_classes(version: str, classes: Classes) -> KeyTable:
    return KeyTable.of(version, dict(_defaults(classes)))


def is_known(key: str, table: KeyTable) -> bool:
    """Tell whether MindSpeed-RL takes this dotted key. It reads `-` as `_`."""
    key = key.replace("-", "_")
    if match := _MODEL_KEY.fullmatch(key):
        return f"{SHARED}.{match[1]}" in table
    match = _MAP_KEY.fullmatch(key)
    return key in table or (match is not None and match[1] in table)


def nearest(key: str, table: KeyTable) -> tuple[str, ...]:
    """Known keys that resemble `key`; of a model's key those of the model."""
    match = _MODEL_KEY.fullmatch(key)
    if match is None:
        return table.nearest(key)
    section = key.removesuffix(match[1])
    near = (name for name in table.nearest(f"{SHARED}.{match[1]}", 8) if name.startswith(f"{SHARED}."))
    return tuple(section + name.removeprefix(f"{SHARED}.") for name in near)[:3]


@cache
def _shipped(version: str) -> KeyTable:
    return table_of_classes(version, json.loads((KEYS_FOLDER / f"{version}.json").read_text(encoding="utf-8")))


def _defaults(classes: Classes) -> Iterator[tuple[str, Any]]:
    """Dotted key -> default. A role has the values of the shared section unless it has its own."""
    for section, name in SECTIONS.items():
        for key, default in classes.get(name, {}).items():
            if section in ROLES:
                yield f"{section}.{key}", f"${{{SHARED}.{key}}}"
            else:
                yield from _leaves(f"{section}.{key}", default)
        if name == "MegatronConfig":
            yield f"{section}.model", None if section == SHARED else f"${{{SHARED}.model}}"


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}", inner)
    else:
        yield key, value
