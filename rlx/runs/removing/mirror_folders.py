"""Delete the copies that this machine made of runs on other hosts, below `RLX_HOME/mirror`. A look makes them again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rlx.errors import RlxError
from rlx.model.run_dir import TRASH_DIR
from rlx.runs.copies.mirror_store import cursor_file
from rlx.runs.copies.mirror_store import locked as locked_copy


@dataclass(frozen=True, slots=True)
class MirrorFolder:
    """The copy of one run. `written`: when something came last, in seconds since 1970."""

    run_id: str
    path: Path
    written: float

    @property
    def bytes(self) -> int:
        """What its files take, without following links."""
        return sum(path.lstat().st_size for path in self.path.rglob("*") if not path.is_dir() or path.is_symlink())


def mirror_folders(home: Path) -> Iterator[MirrorFolder]:
    """Every folder that is a copy made by rlx: with a cursor in it, and no link."""
    for path in sorted(home.glob("[!.]*")):
        with suppress(OSError):
            cursor = cursor_file(path)
            if path.is_dir() and not path.is_symlink() and cursor.is_file() and not cursor.is_symlink():
                yield MirrorFolder(path.name, path, cursor.stat().st_mtime)


def delete_mirror(folder: MirrorFolder) -> None:
    """Rename it first, so that no half of it is ever read. Raises RlxError where that cannot be done."""
    trash = folder.path.parent / TRASH_DIR
    try:
        trash.mkdir(exist_ok=True, mode=0o700)
        with locked_copy(folder.path):
            folder.path.rename(trash / f"{folder.run_id}.{time.time_ns()}")
        empty_trash(folder.path.parent)
    except OSError as problem:
        raise RlxError(f"{folder.path}: {problem.strerror}", "check that its folder is writable") from None


def empty_trash(home: Path) -> None:
    """Delete what was renamed, also by an rlx that was killed before it had deleted it. Raises OSError."""
    trash = home / TRASH_DIR
    if trash.is_dir() and not trash.is_symlink():
        shutil.rmtree(trash)
