"""Finds the files that ride along with rlx: recipes, templates, payload. Works from a checkout and from a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _shared_folder(name: str) -> Path:
    in_wheel = _PACKAGE / "_data" / name
    return in_wheel if in_wheel.is_dir() else _PACKAGE.parent / name


def recipes_folder() -> Path:
    return _shared_folder("recipes")


def templates_folder() -> Path:
    return _shared_folder("templates")


def recorded_pair() -> Path:
    """Two run directories of the recipe tiny-cpu, as verl left them: a control, and an arm with noise."""
    return _shared_folder("tests") / "cases/pairs/probed"


def payload_folder(backend: str = "") -> Path:
    """Files that travel with a run: the common ones, or those of a back-end, by the name of its folder."""
    return _PACKAGE / "backends" / backend / "payload" if backend else _PACKAGE / "payload"


def payload_below(package: Path) -> Path:
    """The folder of what travels to hosts from a package, such as that of a scheduler."""
    return package / "payload"
