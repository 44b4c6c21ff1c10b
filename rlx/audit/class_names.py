"""Find the class that a name means from the source of a package, by its syntax tree, without importing it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rlx.audit.checkout import NoiseHook
from rlx.local_files import parse_python

# Where each package defines the Qwen2 that a small model of rlx is.
_MODELS = {
    "transformers": "transformers.models.qwen2.modeling_qwen2",
    "vllm": "vllm.model_executor.models.qwen2",
}
_DISTRIBUTION = re.compile(r"(transformers|vllm(?:[_-]cpu)?)-([^-]+)\.(?:dist-info|egg-info)")
_DEEPEST = 12
_LARGEST = 4_000_000


@dataclass(frozen=True, slots=True)
class PackageSource:
    """A folder that holds the source of a package: site-packages, or an unpacked wheel."""

    package: str
    version: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a name means in one version. `bases`: the class and what it inherits from, as far as the source is there."""

    name: str
    source: PackageSource
    bases: tuple[str, ...]


def sources_in(folders: Sequence[Path]) -> list[PackageSource]:
    """Find the packages that models come from in these folders, the first of each version. Executes nothing."""
    found = (each for folder in folders for each in _sources(folder))
    return list({(each.package, each.version): each for each in reversed(list(found))}.values())[::-1]


def _sources(folder: Path) -> Iterator[PackageSource]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        match = _DISTRIBUTION.fullmatch(path.name)
        package = match[1].split("_")[0].split("-")[0] if match else ""
        if match and _file(folder, _MODELS[package]):
            yield PackageSource(package, match[2], folder)


def matched_classes(hook: NoiseHook, sources: Sequence[PackageSource]) -> list[Resolved]:
    """Return what each class that the noise code names means in each version of its package."""
    return [
        resolved
        for name, module in hook.names
        for source in sources
        if source.package == module.split(".")[0] and (resolved := _resolved(source, module, name))
    ]


def engine_classes(source: PackageSource) -> list[Resolved]:
    """Return the classes that this version's Qwen2 makes its norms of."""
    module = _MODELS[source.package]
    path = _file(source.folder, module)
    names = dict.fromkeys(_norms_made(_tree(path))) if path else ()
    return [each for name in names if (each := _resolved(source, module, name))]


def _norms_made(tree: ast.Module) -> Iterator[str]:
    """Yield the class names in assignments like `self.input_layernorm = RMSNorm(…)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
            kept_as = (target.attr for target in node.targets if isinstance(target, ast.Attribute))
            if any("norm" in name for name in kept_as) and "Norm" in node.value.func.id:
                yield node.value.func.id


def _resolved(source: PackageSource, module: str, name: str) -> Resolved | None:
    chain = tuple(_chain(source.folder, module, name))
    return Resolved(name, source, chain) if chain else None


def _chain(folder: Path, module: str, name: str, depth: int = 0) -> Iterator[str]:
    """Yield the class that `name` means in `module`, then its bases in order, across files of the folder."""
    path = _file(folder, module)
    if path is None or depth > _DEEPEST:
        yield f"{module}.{name}"
        return
    tree = _tree(path)
    if defined := _defined(tree, name):
        yield f"{module}.{name}"
        for base in defined.bases:
            yield from _base(folder, module, base, depth)
    elif imported := _imported(tree, name, _package_of(module, path)):
        yield from _chain(folder, *imported, depth + 1)


def _base(folder: Path, module: str, base: ast.expr, depth: int) -> Iterator[str]:
    if isinstance(base, ast.Name):
        yield from _chain(folder, module, base.id, depth + 1)
    else:
        yield ast.unparse(base)


def _defined(tree: ast.Module, name: str) -> ast.ClassDef | None:
    return next((node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name), None)


def _imported(tree: ast.Module, name: str, package: str) -> tuple[str, str] | None:
    """Return module and name behind an imported name."""
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            if (alias.asname or alias.name) == name and isinstance(node, ast.ImportFrom):
                return _absolute(node, package), alias.name
    return None


def _absolute(node: ast.ImportFrom, package: str) -> str:
    parts = package.split(".")[: -(node.level - 1) or None] if node.level else []
    return ".".join([*parts, *([node.module] if node.module else [])])


def _package_of(module: str, path: Path) -> str:
    return module if path.name == "__init__.py" else module.rpartition(".")[0]


def _file(folder: Path, module: str) -> Path | None:
    path = folder.joinpath(*module.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((each for each in candidates if each.is_file()), None)


@cache
def _tree(path: Path) -> ast.Module:
    try:
        return parse_python(path.read_text(encoding="utf-8", errors="replace"), _LARGEST)
    except ValueError:
        return ast.Module([], [])
