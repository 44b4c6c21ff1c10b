"""Files of rlx that travel with a run, flat into payload/ of its directory."""

from __future__ import annotations

from pathlib import Path

from rlx.model import PlannedFile
from rlx.model.run_dir import PAYLOAD_DIR
from rlx.resources import payload_folder


def modules(part: str, folder: Path | None = None) -> tuple[PlannedFile, ...]:
    """A part of the payload: the modules whose names begin with it, from a back-end's `folder` or the common one."""
    return tuple(map(_planned, sorted((folder or payload_folder()).glob(f"{part}*.py"))))


def program(name: str, folder: Path | None = None) -> PlannedFile:
    return _planned((folder or payload_folder()) / name)


def _planned(path: Path) -> PlannedFile:
    return PlannedFile(f"{PAYLOAD_DIR}/{path.name}", path.read_text(encoding="utf-8"))
