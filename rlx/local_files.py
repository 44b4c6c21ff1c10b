"""Read files of this machine, of which a recipe or an option says only the name: a leaf for every room.

A name may lead to a pipe that nobody writes to, a device without end, or more than memory holds. So only regular files
are opened, and no more is read than the caller expects of such a file. Every refusal is an OSError whose `strerror`
says why, so that callers word it as they word a file that is not there.
"""

from __future__ import annotations

import ast
import errno
import json
import os
import pwd
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

_MOST_PARTS = 1000
_BETWEEN_NAMES = re.compile(r"[^\w.\s\\]")
MOST_SOURCE = 200_000
"""Bytes of Python source that is parsed: its tree takes up to 750 times as many (`[a,a,…]` with CPython 3.11)."""
_MOST_VALUES = 2_000_000


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; a link counts as what it leads to. Raises OSError, for anything else, too."""
    _check(_status(path))
    # It may have become something else since: the second look is at what was opened, and no pipe is waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _check(os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except OSError:
        os.close(descriptor)
        raise


def read_bytes(path: Path, most: int) -> bytes:
    """Read a regular file of at most `most` bytes. Raises OSError, for a larger one, too."""
    with open_regular(path) as file:
        return bounded(file, most)


def read_text(path: Path, most: int) -> str:
    """Read a regular file of at most `most` bytes of UTF-8. Raises OSError, for other bytes, too."""
    try:
        return read_bytes(path, most).decode("utf-8")
    except UnicodeDecodeError:
        raise OSError(errno.EILSEQ, "not UTF-8 text") from None


def read_stdin(most: int) -> bytes:
    """Read standard input to its end. Raises OSError for more than `most` bytes, and if it is closed."""
    if sys.stdin is None:
        raise OSError(errno.EBADF, "is closed")
    return bounded(sys.stdin.buffer, most)


def bounded(file: BinaryIO, most: int) -> bytes:
    """Read the rest of a file. Raises OSError for more than `most` bytes: sizes may grow, and /proc says 0."""
    data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"is larger than {_size(most)}")
    return data


def parse_python(text: str, most: int = MOST_SOURCE) -> ast.Module:
    """Parse source without running it. Raises ValueError with the reason, for source over `most` characters, too.

    The parser copies what it has of a dotted name with each part: one of 9,000 parts takes 500 MB.
    """
    if len(text) > most:
        raise ValueError(f"is larger than {_size(most)}")
    if any(part.count(".") > _MOST_PARTS for part in _BETWEEN_NAMES.split(text)):
        raise ValueError(f"has a name of over {_MOST_PARTS:,} parts")
    try:
        return ast.parse(text)
    except SyntaxError as problem:
        raise ValueError(f"line {problem.lineno}: no Python ({problem.msg})") from None
    except (RecursionError, MemoryError):
        raise ValueError("no Python (nested too deeply)") from None
    except ValueError as problem:
        raise ValueError(f"no Python ({problem})") from None


def parse_json(data: bytes | str) -> Any:
    """Parse JSON. Raises ValueError with the reason, for more than two million values, too: each takes 60 bytes."""
    marks = (data.count(mark) for mark in ",[{") if isinstance(data, str) else (data.count(mark) for mark in b",[{")
    if sum(marks) > _MOST_VALUES:
        raise ValueError(f"holds more than {_MOST_VALUES:,} values")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def is_folder(path: Path) -> bool:
    """Tell whether there is such a folder; Path.is_dir raises for names that are too long."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def is_private(path: Path, folder: Path) -> bool:
    """Tell whether a file, named from `folder`, is one that its owner keeps from others.

    So is what lies in a folder of a home that begins with a dot, unless `folder` is in there too, and what only its
    owner and group may read, unless it lies below `folder`. Links are followed.
    """
    path, folder = path.resolve(), folder.resolve()
    for home in _homes():
        top = _dotted(path, home)
        if top and top != _dotted(folder, home):
            return True
    return is_outside(path, folder) and not _status(path).st_mode & stat.S_IROTH


def is_outside(path: Path, folder: Path) -> bool:
    """Tell whether a file lies outside a folder, links followed."""
    return not path.resolve().is_relative_to(folder.resolve())


def _dotted(path: Path, home: Path) -> str:
    """`.ssh` for a file in it; "" for one that is in no such folder of the home."""
    first = path.relative_to(home).parts[:1] if path.is_relative_to(home) else ()
    return first[0] if first and first[0].startswith(".") else ""


def _homes() -> set[Path]:
    """Where this person is at home: HOME may be set otherwise, as with sudo."""
    homes = {Path(os.environ["HOME"])} if os.environ.get("HOME") else set()
    with suppress(KeyError):
        homes.add(Path(pwd.getpwuid(os.getuid()).pw_dir))
    return {home.resolve() for home in homes}


def _status(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except ValueError:
        raise OSError(errno.EINVAL, "no file can have this name") from None


def _check(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "no regular file")


def _size(count: int) -> str:
    if count % (1 << 20) == 0:
        return f"{count >> 20} MiB"
    return f"{count / 10**6:g} MB" if count >= 10**6 else f"{count // 1000} kB"
