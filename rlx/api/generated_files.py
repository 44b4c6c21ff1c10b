"""Files that rlx makes of what it knows: pictures and reports. They may be made again, so they replace their like."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rlx import __version__
from rlx.errors import RlxError, UsageError

if TYPE_CHECKING:
    from rlx.report import Drawing

# Each of these files says so near its beginning: a page and an SVG in words, a PNG in its `Software` field.
_MADE_BY = "made by rlx"
_LOOKED_AT = 4096
_SUFFIXES = (".png", ".svg")


def made_by() -> str:
    """Return the mark that every generated file contains."""
    return f"{_MADE_BY} {__version__}"


def check_target(path: Path) -> None:
    """Check that this file may be written. Raises RlxError for a file that rlx has not made, which is never
    replaced.
    """
    if path.is_dir():
        raise RlxError(f"{path} is a folder", "name a file in it")
    if not path.parent.is_dir():
        raise RlxError(f"{path.parent}: there is no such folder", f"mkdir -p {path.parent}")
    if path.exists() and _MADE_BY.encode() not in _beginning(path):
        raise RlxError(f"{path} exists, and rlx has not made it", "name another file, or remove this one first")


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file as a whole, never half of it. A link stays a link. Raises RlxError as `check_target` does."""
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
    """Take the mode of the file before, else that of other new files, because reports are made to be shared."""
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


def check_picture(path: str) -> None:
    """Check, before any host is asked, that this can be drawn. Raises UsageError or RlxError."""
    if Path(path).suffix.lower() not in _SUFFIXES:
        raise UsageError(f"--plot {path}: rlx draws .png and .svg", "name such a file, or - for the terminal")
    check_target(Path(path))


def write_scene(path: str, drawing: Drawing) -> None:
    """Write the drawing; an earlier picture of rlx there is replaced."""
    from rlx.report import png_bytes, svg_file

    write = svg_file if Path(path).suffix.lower() == ".svg" else png_bytes
    replace_file(Path(path), write(drawing, made_by()))
