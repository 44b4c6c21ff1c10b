"""Reads the text of a recipe file, and nothing that is not a small text file."""

from __future__ import annotations

import re
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from rlx.errors import UsageError
from rlx.recipe.problems import SourceLocation, refusal

SIZE_LIMIT = 1_000_000
STDIN = "-"
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Source:
    """The text of a file. `name` is how the user called it, `folder` is what relative paths in it start from."""

    name: str
    folder: Path
    text: str


def read_source(path: Path | str) -> Source:
    """Read a file, or standard input for `-`. Raises UsageError for anything that is no UTF-8 text of up to 1 MB."""
    if str(path) == STDIN:
        return Source("stdin", Path.cwd(), _decode(_read_stdin(), "stdin"))
    path = Path(path)
    try:
        data = _read_file(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{path}: cannot be read: {reason}", "check the path of the recipe") from None
    return Source(str(path), path.parent, _decode(data, str(path)))


def is_file(path: Path) -> bool:
    """Tell whether there is a file that can be looked at; Path.is_file raises for names that are too long."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _read_file(path: Path) -> bytes:
    # Looked at before it is opened: a pipe without a writer would block, /dev/zero would never end.
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{path}: is a folder, not a recipe", "name a recipe file in it")
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path}: is no regular file", "pass a recipe from a pipe as `-`")
    if status.st_size > SIZE_LIMIT:
        raise _too_large(str(path))
    with path.open("rb") as file:
        return _limited(file.read(SIZE_LIMIT + 1), str(path))


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise UsageError("stdin: is closed", "name a recipe file instead of `-`")
    return _limited(sys.stdin.buffer.read(SIZE_LIMIT + 1), "stdin")


def _limited(data: bytes, name: str) -> bytes:
    # A file may have grown since, and files under /proc say that they are empty.
    if len(data) > SIZE_LIMIT:
        raise _too_large(name)
    return data


def _too_large(name: str) -> UsageError:
    return UsageError(f"{name}: is larger than {SIZE_LIMIT // 10**6} MB, so it is no recipe", "check the path")


def _decode(data: bytes, name: str) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise refusal(SourceLocation(name), "is UTF-16; save it as UTF-8")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = SourceLocation(name, data.count(b"\n", 0, error.start) + 1)
        raise refusal(place, f"byte 0x{data[error.start]:02x} is no UTF-8; save the file as UTF-8") from None
    if control := _CONTROL.search(text):
        place = SourceLocation(name, text.count("\n", 0, control.start()) + 1)
        raise refusal(place, f"contains the control character U+{ord(control[0]):04X}; is it a text file?")
    return text
