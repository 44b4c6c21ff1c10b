"""Find what other distributions add to rlx by entry points, and load it only where something asks for it.

A leaf. An entry point `NAME = PACKAGE` of the group `rlx.backends` or `rlx.schedulers` adds a package with modules of
fixed names, one of `rlx.trackers` a module. What is broken in one of them is an error of the command that needs it, and
a warning of any other.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
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
    """Import a module of another distribution. Raises RlxError, with the name of the entry point, where that fails.

    Raises ModuleNotFoundError where that very module is not there: some are optional.
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
    """Remember what is wrong with a plug-in that this command does without."""
    _WARNINGS.setdefault(name, problem)


def warnings() -> tuple[str, ...]:
    """List what is wrong with the plug-ins that this process did without, one line for each."""
    return tuple(_WARNINGS.values())


@cache
def _plug_ins(group: str) -> Mapping[str, str]:
    from importlib.metadata import entry_points

    return {point.name: point.module for point in entry_points(group=group)}


@cache
def _is_mentioned() -> bool:
    """Tell whether any distribution on the path has an entry point of rlx.

    importlib.metadata takes 40 ms to say so, as much as all else that `rlx status` does before it reads runs; the
    files themselves take 3 ms.
    """
    return any(_mentions(Path(folder)) for folder in sys.path)


def _mentions(folder: Path) -> bool:
    try:
        names = [path for path in folder.iterdir() if path.suffix in (".dist-info", ".egg-info")]
    except OSError:
        return False
    return any(b"[rlx." in _content(path / "entry_points.txt") for path in names)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
