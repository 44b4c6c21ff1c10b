"""Places of a back-end's package that the noise is hooked into: are they what they were, and how to change them.

The source is parsed and not executed: that needs neither an inference engine nor an accelerator, and says what is wrong
in the first second of a run.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from rlx_aqn_settings import refusal

Patch = Callable[[type], None]


@dataclass(frozen=True)
class HookPoint:
    """A method that is hooked or called. `parameters` are its first ones, by name; `says` is text of its class."""

    role: str
    module: str
    owner: str
    method: str
    parameters: tuple[str, ...]
    says: str = ""
    is_new: bool = False  # a module that only later versions have


def check(package: Path, points: Sequence[HookPoint], fix: str, what: str = "the noise") -> tuple[HookPoint, ...]:
    """Those of the points that the package in this folder has. Raises ValueError for one that is not what it was."""
    present = tuple(point for point in points if not (point.is_new and not _path(package, point).exists()))
    for point in present:
        if changed := _change(package, point):
            raise refusal("RLX641", f"aqn: {package.name} in {package} has no place for {what}: {changed}", fix)
    return present


def _path(package: Path, point: HookPoint) -> Path:
    return package.parent / f"{point.module.replace('.', '/')}.py"


def _change(package: Path, point: HookPoint) -> str:
    """Return what has changed; "" if nothing has."""
    where = f"{point.module}.{point.owner}"
    try:
        source = _path(package, point).read_text(encoding="utf-8")
        tree = ast.parse(source)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return f"{point.module} cannot be read"
    owner = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == point.owner), None)
    if owner is None:
        return f"{where} is missing"
    parameters = _parameters(owner, point.method)
    if parameters is None:
        return f"{where}.{point.method} is missing"
    if parameters[: len(point.parameters)] != point.parameters:
        return f"{where}.{point.method} takes {', '.join(parameters)}, not {', '.join(point.parameters)}"
    if point.says not in (ast.get_source_segment(source, owner) or ""):
        return f"{where} no longer says {' '.join(point.says.split())}"
    return ""


def _parameters(owner: ast.ClassDef, method: str) -> tuple[str, ...] | None:
    for node in owner.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == method:
            return tuple(argument.arg for argument in node.args.args)
    return None


class PatchingFinder(importlib.abc.MetaPathFinder):
    """Lets others find the modules, and changes classes in them as soon as they have been executed."""

    def __init__(self, patches: Mapping[str, Sequence[tuple[str, Patch]]]) -> None:
        self._patches = patches

    @classmethod
    def of(cls, points: Sequence[HookPoint], by_role: Mapping[str, Patch]) -> PatchingFinder:
        """Points whose role has no patch are only called."""
        patches: dict[str, list[tuple[str, Patch]]] = {}
        for point in points:
            if patch := by_role.get(point.role):
                patches.setdefault(point.module, []).append((point.owner, patch))
        return cls(patches)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self._patches:
            return None
        spec = self._found_by_others(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self.patch(name, module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def _found_by_others(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        """Ask the finders after this one, which may have changes of their own to make to the same module."""
        after = itertools.dropwhile(lambda finder: finder is not self, sys.meta_path)
        others = [finder for finder in after if finder is not self] or [importlib.machinery.PathFinder]
        specs = (finder.find_spec(name, path, target) for finder in others if hasattr(finder, "find_spec"))
        return next((spec for spec in specs if spec is not None), None)

    def patch(self, name: str, module: ModuleType) -> None:
        for class_name, patch in self._patches.get(name, ()):
            patch(getattr(module, class_name))
