"""Register the back-ends, a row each, and load the parts of one.

This module imports no back-end, so every package may import it. A part is a module of a fixed name in the back-end's
folder; the package that loads it defines in a Protocol what it must contain. Another distribution adds a back-end by
an entry point of the group `rlx.backends` that names its package. One that cannot be loaded is an error where a recipe
names it, and elsewhere a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from rlx.errors import RlxError, UsageError
from rlx.plug_ins import load, plug_ins, warn

GROUP = "rlx.backends"
PACKAGES = {
    "verl": "rlx.backends.verl",
    "mindspeed-rl": "rlx.backends.mindspeed_rl",
    "trl": "rlx.backends.trl",
}
"""The back-ends that come with rlx: `backend.kind` of a recipe -> package. The first is the default of a recipe."""


def packages() -> Mapping[str, str]:
    """Map each `backend.kind`, those of other distributions last, to the package that knows that back-end."""
    others = {kind: package for kind, package in plug_ins(GROUP).items() if kind not in PACKAGES}
    return {**PACKAGES, **others}


def kinds() -> tuple[str, ...]:
    """List what `backend.kind` may be, the default first."""
    return tuple(packages())


def part(kind: str, name: str) -> ModuleType:
    """Import one module of a back-end, such as `log` or `rules`.

    Raises UsageError for a kind that has no row, RlxError for one of another distribution that cannot be loaded.
    """
    return _import(kind, f"{_package(kind)}.{name}")


def optional_part(kind: str, name: str) -> ModuleType | None:
    """Import the module of that name, which may be one of a package such as `rules.facts`; None if there is none.

    Raises as `part` does.
    """
    wanted = f"{_package(kind)}.{name}"
    try:
        return _import(kind, wanted)
    except ModuleNotFoundError as problem:
        if problem.name and wanted.startswith(problem.name):
            return None
        raise


def loadable_part(kind: str, name: str) -> ModuleType | None:
    """Import as `optional_part` does; None, with a warning, where the back-end is unknown here or cannot be loaded.

    For what reads runs, which may be of any back-end.
    """
    if kind not in packages():
        return None
    try:
        return optional_part(kind, name)
    except RlxError as problem:
        warn(kind, problem.message)
        return None


def parts(name: str) -> Iterator[tuple[str, ModuleType]]:
    """Yield the module of that name of every back-end that has one, with its kind; without what cannot be loaded."""
    found = ((kind, loadable_part(kind, name)) for kind in packages())
    return ((kind, module) for kind, module in found if module)


def folders(name: str) -> tuple[Path, ...]:
    """List the folder of that name of each back-end, whether it has one or not, without importing the back-end."""
    return tuple(Path(place, name) for package in packages().values() for place in _places(package))


def _places(package: str) -> list[str]:
    try:
        spec = find_spec(package)
    except ImportError:
        return []
    return list(spec.submodule_search_locations or ()) if spec else []


def _import(kind: str, wanted: str) -> ModuleType:
    return import_module(wanted) if kind in PACKAGES else load(GROUP, kind, wanted)


def _package(kind: str) -> str:
    known = packages()
    if kind not in known:
        raise UsageError(
            f"backend.kind: rlx has no back-end {kind!r}",
            f"use one of {', '.join(known)}, or install what brings it (entry point {GROUP})",
        )
    return known[kind]
