"""The standard streams of a command: missing or closed ones, and the layout of text for a terminal."""

from __future__ import annotations

import errno
import os
import re
import sys
import textwrap
from typing import NoReturn, TextIO
from unicodedata import east_asian_width

from rlx.errors import ExitCode

_SEVERITY = re.compile(r"(^\s*(?:rlx: )?|  )(error|warning)(?=:| RLX\d)", re.MULTILINE)
"""Where the word for the severity of a finding begins a line, or follows two spaces."""
_COLOURS = {"error": "\x1b[31m", "warning": "\x1b[33m"}
_STYLES = {"error": "red", "warning": "yellow"}
_PLAIN = "\x1b[0m"
_HANGING = 2
_CHINESE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60"
# A word with the blanks behind it, or one Chinese character, each with the closing marks that belong to it.
_PIECE = re.compile(rf"(?:[{_CHINESE}]|[^\s{_CHINESE}]+)[\u3001\u3002\uff01\uff09\uff0c\uff1a\uff1b\uff1f]*\s*")
_USUAL = 80


def open_missing_streams() -> None:
    """Open closed standard streams (`>&-`) as /dev/null: else the next opened file, the index, would be stdout."""
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
    """Make stdout accept every character; one that its encoding lacks is written as its number.

    File names may hold any bytes, and logs any letters.
    """
    if sys.stdout.errors == "strict" or not writes_utf8():
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def writes_utf8() -> bool:
    return sys.stdout.encoding.lower().replace("-", "") == "utf8"


def end(code: int | str | None, last_words: str = "") -> NoReturn:
    """Write `last_words` and everything before, then exit with `code`.

    If the reader of stdout is gone and nothing else was wrong, the code is OUTPUT_CLOSED.
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
    """Tell whether there was no space for the output, which is no bug in rlx."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def mute() -> None:
    """Redirect stdout to /dev/null, since Python would write what is left at exit and report the error again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def laid_out(text: str, stream: TextIO, *, wraps: bool = True) -> str:
    """Return the text as this stream shows it: on a terminal wrapped and coloured, elsewhere unchanged."""
    if not stream.isatty():
        return text
    if wraps:
        width = _columns(stream)
        text = "\n".join(wrapped(line, width) for line in text.split("\n"))
    return _SEVERITY.sub(_coloured, text) if shows_colour(stream) else text


def wrapped(line: str, width: int) -> str:
    """Break a line between words; its further lines are indented by two more. A word that is too long stays whole.

    Chinese takes two columns a character, and may be broken at any, but not before a closing mark.
    """
    if columns_of(line) <= width:
        return line
    margin = " " * (len(line) - len(line.lstrip(" ")))
    if columns_of(line) > len(line):
        rows = [margin]
        for piece in _PIECE.findall(line.strip(" ")):
            if columns_of(rows[-1]) + columns_of(piece.rstrip(" ")) > width and rows[-1].strip(" "):
                rows.append(margin + " " * _HANGING)
            rows[-1] += piece
        return "\n".join(row.rstrip(" ") for row in rows)
    lines = textwrap.wrap(
        line.strip(" "),
        width,
        initial_indent=margin,
        subsequent_indent=margin + " " * _HANGING,
        break_long_words=False,
        break_on_hyphens=False,
        expand_tabs=False,
        replace_whitespace=False,
    )
    return "\n".join(lines)


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes. Source: Unicode Standard Annex 11."""
    return len(text) if text.isascii() else sum(1 + (east_asian_width(one) in "WF") for one in text)


def shortened(text: str, most: int) -> str:
    """Return at most `most` characters of a text, cut between words, with `…` at the cut."""
    if len(text) <= most:
        return text
    cut = text[: most - 2]
    words = cut.rpartition(" ")[0]
    # A single long word, such as a path, is cut anywhere.
    return f"{words} …" if 2 * len(words) > most else f"{cut}…"


def severity_styles(text: str) -> list[tuple[str, int, int]]:
    """Return the colour of each word for a severity in a text, with its start and end."""
    return [(_STYLES[found[2]], *found.span(2)) for found in _SEVERITY.finditer(text)]


def _columns(stream: TextIO) -> int:
    if (given := os.environ.get("COLUMNS", "")).isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL
    except OSError:
        return _USUAL


def shows_colour(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal whose user wants colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _coloured(match: re.Match[str]) -> str:
    return f"{match[1]}{_COLOURS[match[2]]}{match[2]}{_PLAIN}"
