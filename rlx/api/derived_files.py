"""Files that rlx makes of what it knows: pictures and reports. They may be made again, so they replace their like."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rlx import __version__
from rlx.errors import RlxError

# Each of these files says so near its beginning: a page and an SVG in words, a PNG in its `Software` field.
_MADE_BY = "made by rlx"
_LOOKED_AT = 4096


def made_by() -> str:
    return f"{_MADE_BY} {__version__}"


def check_target(path: Path) -> None:
    """Raises RlxError for a file that is none of rlx's, which is never replaced, and where no file can be."""
    if path.is_dir():
        raise RlxError(f"{path} is a folder", "name a file in it")
    if not path.parent.is_dir():
        raise RlxError(f"{path.parent}: there is no such folder", f"mkdir -p {path.parent}")
    if path.exists() and _MADE_BY.encode() not in _beginning(path):
        raise RlxError(f"{path} exists, and rlx has not made it", "name another file, or remove this one first")


def replace_file(path: Path, content: bytes) -> None:
    """The old file or the new one, never half of it. A link stays a link. Raises RlxError as `check_target` does."""
    with replaced_file(path) as file:
        file.write(content)


@contextmanager
def replaced_file(path: Path) -> Iterator[BinaryIO]:
    """Write a file that takes the place of the old one when the block ends well. Raises as `replace_file` does."""
    check_target(path)
    path = path.resolve()
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name[:80]}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
            _set_mode(path, temporary)
            Path(temporary).replace(path)
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise RlxError(f"{path} cannot be written: {error.strerror}") from None


def _set_mode(path: Path, temporary: str) -> None:
    """Take the mode of the file before, else that of other new files, because reports are made to be passed on."""
    if path.exists():
        shutil.copymode(path, temporary)
        return
    mask = os.umask(0)
    os.umask(mask)
    Path(temporary).chmod(0o666 & ~mask)


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LOOKED_AT)
    except OSError as error:
        raise RlxError(f"{path} cannot be read: {error.strerror}", "name another file") from None
