"""Look up the keys that a section of MindSpeed-RL's YAML takes, and the one that a misspelt key probably means.

A section is read by a class, whose keys lie in `keys/<version>.json` or in the source that was found on the host.
Source: config_cls/base_config.py of MindSpeed-RL: a key is known if `__init__` of its class sets an attribute of that
name; anything else raises ValueError after Ray has started. The source is read; nothing of it is imported or run.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rlx.backends.shared.rendering import KeyTable
from rlx.errors import UsageError
from rlx.local_files import MOST_SOURCE, is_folder, parse_python, read_text

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
CLASSES = ("MegatronConfig", "RLConfig", "GenerateConfig", "ProfilerConfig", "MsprobeConfig")
_MOST_FILES = 100
_HINT = "the folder is mindspeed_rl/config_cls of a checkout of MindSpeed-RL"
Classes = Mapping[str, Mapping[str, Any]]


def shipped_versions() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in KEYS_FOLDER.glob("*.json")))


def find_table(version: str) -> KeyTable:
    """Return the table of `version`, else of the release of that name. Raises UsageError for any other."""
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
    """Read the table of a checkout's configuration classes. Raises UsageError if there are none."""
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


def read_config_classes(folder: Path) -> Classes:
    """Class -> key -> default; None for a default that only its code knows. Raises UsageError for another folder."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.py"))[:_MOST_FILES] if is_folder(folder) else ():
        for node in ast.walk(_parsed(path)):
            if isinstance(node, ast.ClassDef) and node.name in CLASSES:
                found[node.name] = dict(_attributes(node))
    if missing := [name for name in CLASSES[:3] if not found.get(name)]:
        raise UsageError(f"{folder}: no class {missing[0]} with keys", _HINT)
    return found


def _parsed(path: Path) -> ast.Module:
    try:
        return parse_python(read_text(path, MOST_SOURCE))
    except OSError as problem:
        raise UsageError(f"{path}: {problem.strerror}", _HINT) from None
    except ValueError as problem:
        raise UsageError(f"{path}: {problem}", _HINT) from None


def _attributes(cls: ast.ClassDef) -> Iterator[tuple[str, Any]]:
    """`self.name = default` in `__init__`; of several, the first one is the default."""
    seen = set()
    for function in cls.body:
        if not isinstance(function, ast.FunctionDef) or function.name != "__init__":
            continue
        for node in ast.walk(function):
            for name, value in _assigned(node):
                if name not in seen:
                    seen.add(name)
                    yield name, _default(value)


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(node, ast.AnnAssign):
        targets: list[ast.expr] = [node.target]
    elif isinstance(node, ast.Assign):
        targets = node.targets
    else:
        return
    for target in targets:
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
            yield target.attr, node.value


def _default(value: ast.expr | None) -> Any:
    """Read a literal; of `config_dict.get("key", 1)` the 1."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "get":
        value = value.args[1] if len(value.args) == 2 else None
    try:
        return ast.literal_eval(value) if value else None
    except (ValueError, TypeError, MemoryError, RecursionError):
        return None
