"""Find the folders that a Hydra configuration names in `hydra.searchpath`.

Hydra reads a relative path from the folder in which training starts, which is the root of a checkout; nobody knows it
from the configuration alone, so it is looked for upwards from there. Only the file that is started from may name any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

START = "_start"
"""Beside a host's copy of verl's own configuration: that of the program which starts (rlx/payload/config_tree.py)."""
_OWN = PurePosixPath("verl/trainer/config")
_MOST_FOLDERS, _MOST_PARENTS = 16, 8


def searched_folders(folder: Path, document: Mapping[str, Any]) -> tuple[Path, ...]:
    """Those that are there, in their order. A path from the root, or one that climbs, is of a host: it is left out."""
    hydra = document.get("hydra")
    written = hydra.get("searchpath") if isinstance(hydra, dict) else None
    entries = written[:_MOST_FOLDERS] if isinstance(written, list) else []
    found = (_find(folder, _relative_path(entry)) for entry in entries if isinstance(entry, str))
    return tuple(place for place in found if place is not None)


def _relative_path(entry: str) -> PurePosixPath | None:
    scheme, mark, rest = entry.partition("://")
    text = entry if not mark else rest.replace(".", "/") if scheme == "pkg" else rest if scheme == "file" else ""
    path = PurePosixPath(text)
    return None if not text or path.is_absolute() or ".." in path.parts or "$" in text else path


def _find(folder: Path, path: PurePosixPath | None) -> Path | None:
    if path is None:
        return None
    if folder.name == START and path == _OWN:
        return folder.parent
    return next(filter(_is_folder, _candidates(folder.absolute(), path)), None)


def _candidates(folder: Path, path: PurePosixPath) -> Iterator[Path]:
    return (place / path for place in (folder, *folder.parents)[:_MOST_PARENTS])


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False
