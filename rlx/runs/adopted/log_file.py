"""Copies one log file of this machine, whatever wrote it, and refuses what is none."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rlx.errors import RlxError
from rlx.evidence import Evidence, read_evidence
from rlx.local_files import open_regular
from rlx.model.run_dir import ATTEMPTS_DIR, LOG_FILE, METRICS_FILE
from rlx.runs.duration import duration
from rlx.runs.judging.parser_cache import ParsedFiles

_CHUNK = 1 << 20
_MOST_PACKED, _MOST_RATIO = 1 << 30, 50
_GZIP = b"\x1f\x8b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_RECENT_S = 900.0


def copy_log(path: Path, folder: Path) -> str:
    """Lay the text of a log into `folder` as an attempt has it, in constant memory; the SHA-256 of that text.

    A file of `{"step": …, "data": …}` lines becomes `metrics.jsonl`, everything else the console log. Raises RlxError
    for what cannot be read, is empty or damaged.
    """
    folder.mkdir(parents=True)
    # The commands that show logs want one.
    (folder / LOG_FILE).touch()
    digest = hashlib.sha256()
    with _opened(path) as text:
        head = text.read(_CHUNK)
        _refuse_utf16(path, head)
        with (folder / (METRICS_FILE if _holds_metrics(head) else LOG_FILE)).open("wb") as copy:
            left = _room(path, text)
            for chunk in _chunks(head, text):
                left -= len(chunk)
                if left < 0:
                    raise _too_much(path)
                digest.update(chunk)
                copy.write(chunk)
    if not head:
        raise RlxError(f"{path} is empty", "name the console log of the run")
    return digest.hexdigest()


def _room(path: Path, text: BinaryIO) -> float:
    """How many bytes the text may have: of a packed log 50 times its size, and 1 GiB beyond. Logs pack to a tenth."""
    return _MOST_PACKED + _MOST_RATIO * path.stat().st_size if isinstance(text, gzip.GzipFile) else math.inf


def _too_much(path: Path) -> RlxError:
    return RlxError(
        f"{path} unpacks to more than {_MOST_RATIO} times its size and 1 GiB, as no log does",
        f"if it is one, unpack it yourself, and import that: zcat {path} >whole.log",
    )


def _chunks(head: bytes, rest: BinaryIO) -> Iterator[bytes]:
    yield head
    yield from iter(lambda: rest.read(_CHUNK), b"")


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The text of a file, unpacked if it is gzipped. What goes wrong while it is read is told by the file's name."""
    if path.is_dir():
        inside = f"{ATTEMPTS_DIR}/*/{LOG_FILE}" if (path / ATTEMPTS_DIR).is_dir() else "*.log"
        raise RlxError(f"{path} is a directory", f"name the logs in it, as in {path}/{inside}")
    try:
        raw = open_regular(path)
    except OSError as problem:
        raise RlxError(f"{path}: {problem.strerror}", "name a console log that you can read") from None
    try:
        with raw:
            packed = raw.read(2) == _GZIP
            raw.seek(0)
            if packed:
                with gzip.open(raw) as text:
                    yield text  # type: ignore[misc]
            else:
                yield raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise RlxError(
            f"{path} is damaged: {problem}", f"unpack what is left of it, and import that: zcat {path} >part.log"
        ) from None


def _refuse_utf16(path: Path, head: bytes) -> None:
    if head.startswith(_UTF16):
        raise RlxError(f"{path} is text in UTF-16", f"iconv -f UTF-16 -t UTF-8 {path} >utf8.log, and name that")


def _holds_metrics(head: bytes) -> bool:
    try:
        first = json.loads(head.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and {"step", "data"} <= first.keys()


def inspect_copy(path: Path, folder: Path, parsed: ParsedFiles) -> tuple[Evidence, list[str]]:
    """Read the copy in `folder`, with what a person should know of it. Raises RlxError if `path` is no text."""
    evidence = read_evidence([folder], parsed)
    shows_nothing = not evidence.metrics and evidence.progress is None and not evidence.noise
    if shows_nothing:
        refuse_no_text(path, folder / LOG_FILE)
    return evidence, list(_remarks(path, folder, evidence))


def refuse_no_text(path: Path, log: Path) -> None:
    """Raises RlxError, by the name of `path`, where what is in `log` is no text."""
    with log.open("rb") as copy:
        head = copy.read(1 << 16)
    _refuse_utf16(path, head)
    if b"\0" in head or len(head.decode("utf-8", "ignore").encode()) < 0.9 * len(head):
        raise RlxError(f"{path} is no text", "name a console log; unpack it first if it is an archive")


def _remarks(path: Path, folder: Path, evidence: Evidence) -> Iterator[str]:
    if not evidence.metrics:
        yield f"{path} has no metric line (step:N - key:value): there is no value in it to judge or compare"
    if not _ends_with_a_line(folder / LOG_FILE):
        yield f"{path}: its last line has no end and may be half written, so it is left out"
    age = time.time() - path.stat().st_mtime
    if age < _RECENT_S:
        yield f"{path} was written {duration(age)} ago; if it still grows, take it in with rlx adopt local:{path}"


def _ends_with_a_line(log: Path) -> bool:
    with log.open("rb") as copy:
        if copy.seek(0, 2) == 0:
            return True
        copy.seek(-1, 2)
        return copy.read(1) in b"\r\n"
