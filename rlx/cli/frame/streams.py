"""The standard streams of a command line: what to do where one is missing, or its reader goes away."""

from __future__ import annotations

import errno
import os
import sys
from typing import NoReturn

from rlx.errors import ExitCode


def open_missing_streams() -> None:
    """Open closed standard streams to nowhere (`>&-`): else the next opened file, the index, would be stdout."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115 - open as long as rlx runs
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8")  # noqa: SIM115


def write_anything() -> None:
    """Let stdout take every character: one that its encoding lacks is written as its number.

    Names of files may hold any bytes, and logs any letters.
    """
    if sys.stdout.errors == "strict" or not writes_utf8():
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def writes_utf8() -> bool:
    return sys.stdout.encoding.lower().replace("-", "") == "utf8"


def end(code: int | str | None, last_words: str = "") -> NoReturn:
    """End with this code, once all is written, at last `last_words`.

    Where the reader is gone and nothing else was wrong, the code is OUTPUT_CLOSED.
    """
    try:
        sys.stdout.write(last_words)
        sys.stdout.flush()
    except BrokenPipeError:
        code = code or ExitCode.OUTPUT_CLOSED
        mute()
    except OSError as error:
        sys.stderr.write(not_written(error))
        code = code or ExitCode.ERROR
        mute()
    sys.exit(code)


def not_written(error: OSError) -> str:
    return f"rlx: the output could not be written: {error.strerror}\n"


def is_full(error: OSError) -> bool:
    """Recognise a lack of space for the output, which is no bug of rlx."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def mute() -> None:
    """Send stdout to nowhere: at its end, Python would write what is left once again, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
