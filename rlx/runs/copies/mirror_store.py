"""Store the copy of one run's files on this machine, and how far it goes.

`cursor.json` says up to where each file is copied. It is replaced after the files are written, so that the next rlx
cuts off what a killed one wrote beyond it. Several rlx may copy one run at once: each adds only what fits the cursor.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path, PurePosixPath

from rlx.errors import RlxError
from rlx.evidence import needles
from rlx.local_files import locked_folder
from rlx.model.run_dir import TRASH_DIR
from rlx.runs.copies.mirror_wire import FileFrame

_CURSOR = "cursor.json"
_MOST_LINES = 10**7


def _rules() -> str:
    """Digest the rules by which logs are copied, because a copy made by other rules may lack lines."""
    return hashlib.sha256(b"\n".join(needles())).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Copied:
    """How far the copy of one file goes: `bytes` of the file on the host, which became `kept` bytes here.

    `left` bytes are not copied yet. `sum` is the checksum of the last bytes before `bytes`. `denied`: the user on the
    host may not read it; it may be a folder.
    """

    inode: str
    bytes: int
    kept: int
    left: int = 0
    sum: str = "-"
    denied: bool = False


@dataclass(slots=True)
class Cursor:
    """How far the copy of a run goes. `as_of`: the epoch of the last query, by this machine's clock; None: never.

    The paths of `files` are relative to the run directory.
    """

    as_of: float | None = None
    files: dict[str, Copied] = field(default_factory=dict)

    @property
    def left(self) -> int:
        return sum(file.left for file in self.files.values())


def read_cursor(folder: Path) -> Cursor:
    """Read the cursor of the copy in `folder`, without files that are missing or too short."""
    try:
        document = json.loads((folder / _CURSOR).read_bytes())
        if document["rules"] != _rules():
            return Cursor(document["as_of"])
        files = {path: Copied(*values) for path, values in document["files"].items()}
        return Cursor(document["as_of"], {path: file for path, file in files.items() if _is_there(folder / path, file)})
    except (OSError, ValueError, KeyError, TypeError):
        return Cursor()


def _is_there(path: Path, file: Copied) -> bool:
    try:
        return not file.bytes or path.stat().st_size >= file.kept
    except OSError:
        return False


def add(folder: Path, frames: Sequence[FileFrame], now: float) -> Cursor:
    """Add an answer of the host to the copy, and return how far it goes now. Waits while another rlx does the same."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked_folder(folder):
        cursor = read_cursor(folder)
        cursor.as_of = max(now, cursor.as_of or 0.0)
        # Every answer lists what is denied.
        cursor.files = {path: file for path, file in cursor.files.items() if not file.denied}
        # The first frames hold the end of the run: it must not be visible before everything that led to it.
        for frame in reversed(frames):
            path = str(PurePosixPath(frame.path).relative_to(folder.name))
            if ".." not in frame.path.split("/"):
                _add_frame(folder / path, frame, path, cursor)
        files = {path: list(astuple(file)) for path, file in cursor.files.items()}
        document = {"as_of": cursor.as_of, "rules": _rules(), "files": files}
        _replace(folder / _CURSOR, json.dumps(document).encode())
        return cursor


def cursor_file(folder: Path) -> Path:
    """Return the path of the file that marks a folder as a copy made by rlx."""
    return folder / _CURSOR


def _add_frame(target: Path, frame: FileFrame, path: str, cursor: Cursor) -> None:
    known = cursor.files.get(path)
    if frame.how in ("denied", "later") or not frame.is_whole:
        cursor.files[path] = _untouched(known, frame)
    elif frame.start and (known is None or (known.inode, known.bytes) != (frame.inode, frame.start)):
        pass  # another rlx has copied it meanwhile
    elif frame.start and known and known.sum != frame.sum_before:
        # Another file with the same inode: copy all of it again.
        cursor.files[path] = Copied("-", 0, known.kept, frame.end + frame.left)
    else:
        kept = _write(target, frame, known)
        cursor.files[path] = Copied(frame.inode, frame.end, kept, frame.left, frame.sum_after)


def _untouched(known: Copied | None, frame: FileFrame) -> Copied:
    """Keep what is copied, and note what is left on the host."""
    size, denied = frame.end + frame.left, frame.how == "denied"
    if denied or known is None or known.inode != frame.inode:
        return Copied("-", 0, known.kept if known else 0, size, denied=denied)
    return replace(known, left=max(0, size - known.bytes))


def _write(target: Path, frame: FileFrame, known: Copied | None) -> int:
    """Write or append the data of a frame; return the length of the file then."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    data = frame.data
    if frame.how == "count":
        # Evidence needs the number of answers only: an empty line stands for each.
        if not 0 <= int(data) <= _MOST_LINES:
            raise ValueError(f"{int(data)} lines of validation")
        data = b"\n" * int(data)
    if not frame.start or known is None:
        _replace(target, data)
        return len(data)
    with target.open("r+b") as file:
        file.truncate(known.kept)
        file.seek(known.kept)
        file.write(data)
    return known.kept + len(data)


def _replace(target: Path, data: bytes) -> None:
    # One name is enough, because the folder is locked. The file of a killed rlx is overwritten.
    part = target.with_name(f".{target.name}.part")
    part.write_bytes(data)
    part.replace(target)


@dataclass(frozen=True, slots=True)
class MirrorFolder:
    """The copy of one run. `written`: the epoch when it was last changed."""

    run_id: str
    path: Path
    written: float

    @property
    def bytes(self) -> int:
        """Return the size of its files, without following links."""
        return sum(path.lstat().st_size for path in self.path.rglob("*") if not path.is_dir() or path.is_symlink())


def mirror_folders(home: Path) -> Iterator[MirrorFolder]:
    """List every folder that is a copy made by rlx: with a cursor in it, and no link."""
    for path in sorted(home.glob("[!.]*")):
        with suppress(OSError):
            cursor = cursor_file(path)
            if path.is_dir() and not path.is_symlink() and cursor.is_file() and not cursor.is_symlink():
                yield MirrorFolder(path.name, path, cursor.stat().st_mtime)


def delete_mirror(folder: MirrorFolder) -> None:
    """Delete a copy. It is renamed first, so that no part of it is read meanwhile. Raises RlxError if that fails."""
    trash = folder.path.parent / TRASH_DIR
    try:
        trash.mkdir(exist_ok=True, mode=0o700)
        with locked_folder(folder.path):
            folder.path.rename(trash / f"{folder.run_id}.{time.time_ns()}")
        empty_trash(folder.path.parent)
    except OSError as problem:
        raise RlxError(f"{folder.path}: {problem.strerror}", "check that its folder is writable") from None


def empty_trash(home: Path) -> None:
    """Delete what was renamed, also by a killed rlx. Raises OSError."""
    trash = home / TRASH_DIR
    if trash.is_dir() and not trash.is_symlink():
        shutil.rmtree(trash)
