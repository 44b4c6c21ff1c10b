"""Find the files that come with rlx (recipes, templates, payload), in a checkout and in an installed wheel."""

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
    """Return the folder with two recorded runs of the recipe tiny-cpu: the control, and an arm with noise."""
    return _shared_folder("tests") / "cases/pairs/probed"


def payload_folder(backend: str = "") -> Path:
    """Return the folder of the files that are sent with a run: the common ones, or those of a back-end."""
    return _PACKAGE / "backends" / backend / "payload" if backend else _PACKAGE / "payload"


def payload_below(package: Path) -> Path:
    """Return the folder of the files that a package, such as that of a scheduler, sends to hosts."""
    return package / "payload"
