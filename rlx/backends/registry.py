"""Register the back-ends, a row each, and load what one of them knows when it is asked for.

A leaf: every room may ask it, and none imports a back-end. What a room asks for is a module of a fixed name in the
back-end's folder; the room that asks says in a Protocol what it must hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from rlx.errors import UsageError

PACKAGES = {
    "verl": "rlx.backends.verl",
    "mindspeed-rl": "rlx.backends.mindspeed_rl",
    "trl": "rlx.backends.trl",
}
"""`backend.kind` of a recipe -> the package that knows that back-end. The first is the default of a recipe."""


def kinds() -> tuple[str, ...]:
    """List what `backend.kind` may be, the default first."""
    return tuple(PACKAGES)


def part(kind: str, name: str) -> ModuleType:
    """Import one module of a back-end, such as `log` or `rules`. Raises UsageError for a kind that has no row."""
    return import_module(f"{_package(kind)}.{name}")


def optional_part(kind: str, name: str) -> ModuleType | None:
    """The module of that name, which may be one of a package such as `rules.facts`; None if the back-end has none."""
    wanted = f"{_package(kind)}.{name}"
    try:
        return import_module(wanted)
    except ModuleNotFoundError as problem:
        if problem.name and wanted.startswith(problem.name):
            return None
        raise


def parts(name: str) -> Iterator[tuple[str, ModuleType]]:
    """The module of that name of every back-end that has one, with its kind."""
    found = ((kind, optional_part(kind, name)) for kind in PACKAGES)
    return ((kind, module) for kind, module in found if module)


def folders(name: str) -> tuple[Path, ...]:
    """List the folder of that name of each back-end, whether it has one or not, without importing the back-end."""
    specs = map(find_spec, PACKAGES.values())
    return tuple(Path(place, name) for spec in specs if spec for place in spec.submodule_search_locations or ())


def _package(kind: str) -> str:
    if kind not in PACKAGES:
        raise UsageError(f"backend.kind: rlx has no back-end {kind!r}", f"use one of {', '.join(PACKAGES)}")
    return PACKAGES[kind]
