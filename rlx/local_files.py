"""Read local files that a recipe or an option names, without trusting the name.

It may lead to a pipe without a writer, an endless device, or more data than fits into memory. So only regular files are
opened, and never more is read than the caller allows. Each refusal is an OSError whose `strerror` gives the reason, so
that callers report it like a missing file. Any package may import this module.
"""

from __future__ import annotations

import ast
import errno
import fcntl
import json
import os
import pwd
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

_MOST_PARTS = 1000
_BETWEEN_NAMES = re.compile(r"[^\w.\s\\]")
MOST_SOURCE = 200_000
"""The largest Python source to be parsed, in bytes: its tree takes up to 750 times as many (`[a,a,…]` in 3.11)."""
_MOST_VALUES = 2_000_000
_KINDS_OF_SHELLS = dict.fromkeys(("bash", "sh", "dash", "ksh", "zsh"), "bash")
_BY_ENDING = {".sh": "bash", ".bash": "bash", ".py": "python", ".ipynb": "jupyter"}


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; links are followed. Raises OSError, also for anything but a regular file."""
    _check(_status(path))
    # The file may have been replaced since: what was opened is checked again, and opening does not wait for a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _check(os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except OSError:
        os.close(descriptor)
        raise


def read_bytes(path: Path, most: int) -> bytes:
    """Read a regular file of at most `most` bytes. Raises OSError, also for a larger one."""
    with open_regular(path) as file:
        return bounded(file, most)


def read_text(path: Path, most: int) -> str:
    """Read a regular file of at most `most` bytes of UTF-8. Raises OSError, also for text in another encoding."""
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
    """Read the rest of a file. Raises OSError for more than `most` bytes; /proc reports a size of 0."""
    data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"is larger than {_size(most)}")
    return data


def parse_python(text: str, most: int = MOST_SOURCE) -> ast.Module:
    """Parse source without running it. Raises ValueError with the reason, also for more than `most` characters.

    Dotted names are bounded too: the parser copies a name for each of its parts, so that 9,000 parts take 500 MB.
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
    """Parse JSON. Raises ValueError with the reason, also for more than two million values of 60 bytes each."""
    marks = (data.count(mark) for mark in ",[{") if isinstance(data, str) else (data.count(mark) for mark in b",[{")
    if sum(marks) > _MOST_VALUES:
        raise ValueError(f"holds more than {_MOST_VALUES:,} values")
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def program_of(name: str, text: str) -> str:
    """Tell what runs a file, by its first line and the end of its name: `bash`, `python`, `jupyter`; "" if unknown."""
    first = text.partition("\n")[0]
    words = [word for word in first[2:].split() if not word.startswith("-")] if first.startswith("#!") else []
    named = [word.rpartition("/")[2] for word in words[:2]]
    program = next((word for word in named if word != "env"), "")
    return _KINDS_OF_SHELLS.get(program) or re.sub(r"[\d.]+$", "", program) or _BY_ENDING.get(Path(name).suffix, "")


def is_folder(path: Path) -> bool:
    """Return whether there is such a folder; Path.is_dir raises an error for names that are too long."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def is_private(path: Path, folder: Path) -> bool:
    """Return whether a file, named from `folder`, is private to its owner. Links are followed.

    Private is what is in a folder of a home whose name begins with a dot, unless `folder` is in it too, and what only
    its owner and group may read, unless it is below `folder`.
    """
    path, folder = path.resolve(), folder.resolve()
    for home in _homes():
        top = _dotted(path, home)
        if top and top != _dotted(folder, home):
            return True
    return is_outside(path, folder) and not _status(path).st_mode & stat.S_IROTH


def is_outside(path: Path, folder: Path) -> bool:
    """Return whether a file is outside of a folder, links followed."""
    return not path.resolve().is_relative_to(folder.resolve())


def _dotted(path: Path, home: Path) -> str:
    """Return the folder of the home that holds the file, if its name begins with a dot, such as `.ssh`; else ""."""
    first = path.relative_to(home).parts[:1] if path.is_relative_to(home) else ()
    return first[0] if first and first[0].startswith(".") else ""


def _homes() -> set[Path]:
    """List the homes of the user: HOME and the one in the password database, which differ under sudo."""
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


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Keep every other rlx that locks this folder out of it meanwhile. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
