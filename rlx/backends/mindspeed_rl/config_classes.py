"""Reads which keys MindSpeed-RL's configuration classes take, from their source. Nothing of it is imported or run.

Source: config_cls/base_config.py of MindSpeed-RL: a key is known if `__init__` of its class sets an attribute of that
name; anything else raises ValueError when Ray is up already.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlx.errors import UsageError
from rlx.local_files import MOST_SOURCE, is_folder, parse_python, read_text

CLASSES = ("MegatronConfig", "RLConfig", "GenerateConfig", "ProfilerConfig", "MsprobeConfig")
_MOST_FILES = 100
_HINT = "the folder is mindspeed_rl/config_cls of a checkout of MindSpeed-RL"

Classes = Mapping[str, Mapping[str, Any]]


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
    """A literal; of `config_dict.get("key", 1)` the 1."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "get":
        value = value.args[1] if len(value.args) == 2 else None
    try:
        return ast.literal_eval(value) if value else None
    except (ValueError, TypeError, MemoryError, RecursionError):
        return None
