"""Find what other distributions add to rlx by entry points, and load it when it is needed.

An entry point `NAME = PACKAGE` of the group `rlx.backends` or `rlx.schedulers` adds a package with modules of fixed
names, one of `rlx.trackers` a module. A broken one is an error for commands that need it, and a warning for all others.
Any package may import this module.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from rlx.errors import RlxError

_WARNINGS: dict[str, str] = {}


def plug_ins(group: str) -> Mapping[str, str]:
    """Map the names of a group to the packages or modules that other distributions name for them."""
    if not _is_mentioned():
        return {}
    return _plug_ins(group)


def load(group: str, name: str, wanted: str) -> ModuleType:
    """Import a module of another distribution. Raises RlxError, with the name of the entry point, if that fails.

    Raises ModuleNotFoundError if the module itself is missing, since some are optional.
    """
    try:
        return import_module(wanted)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == wanted:
            raise
        package = plug_ins(group).get(name, wanted)
        raise RlxError(
            f"{name} ({wanted}, entry point of {group}) cannot be loaded: {type(error).__name__}: {error}",
            f"update or remove the distribution that brings {package}; rlx itself works without it",
        ) from None


def warn(name: str, problem: str) -> None:
    """Record the problem of a plug-in that this command does not need."""
    _WARNINGS.setdefault(name, problem)


def warnings() -> tuple[str, ...]:
    """List the recorded problems of plug-ins, one line for each."""
    return tuple(_WARNINGS.values())


@cache
def _plug_ins(group: str) -> Mapping[str, str]:
    from importlib.metadata import entry_points

    return {point.name: point.module for point in entry_points(group=group)}


@cache
def _is_mentioned() -> bool:
    """Return whether any distribution on the path has an entry point of rlx.

    The files are read directly: importlib.metadata needs 40 ms for this, as much as all that `rlx status` does before
    it reads runs, and the files 3 ms.
    """
    for folder in sys.path:
        with suppress(OSError):
            for distribution in Path(folder).iterdir():
                if distribution.suffix in (".dist-info", ".egg-info"):
                    with suppress(OSError):
                        if b"[rlx." in (distribution / "entry_points.txt").read_bytes():
                            return True
    return False
