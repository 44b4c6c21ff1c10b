"""Write and unpack the archive of a bundle; both use the same list of allowed files.

Files: bundle.json, SHA256SUMS, README.txt, `experiments/<digest>.json`, `waivers/<run id>.json`, and `runs/<run id>/…`
as in a run directory: evidence and manifest, no program, no environment, no weights.
"""

from __future__ import annotations

import gzip
import re
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from rlx.errors import RlxError
from rlx.evidence.reading.validation_outputs import SUMMARY_FILE
from rlx.local_files import open_regular
from rlx.model.run_dir import (
    ATTEMPTS_DIR,
    COMPOSED_FILE,
    EVENTS_DIR,
    EXIT_FILE,
    LINEAGE_FILE,
    LOG_FILE,
    MANIFEST_FILE,
    METRICS_FILE,
    PRINTED_FILE,
    PROVENANCE_FILE,
    STATE_DIR,
    STOP_FILE,
    USAGE_FILE,
    VALIDATION_DIR,
)
from rlx.runs.importing.log_copy import CURSOR_FILE
from rlx.runs.importing.log_source import SOURCE_FILE
from rlx.runs.index.kept_waivers import FOLDER as WAIVERS
from rlx.runs.index.registrations import FOLDER

DOCUMENT, SUMS, README = "bundle.json", "SHA256SUMS", "README.txt"
RUNS = "runs"
RUN_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,299}")
_EXIT = f"{STATE_DIR}/{EXIT_FILE}"
_TAKEN_IN = (SOURCE_FILE, CURSOR_FILE)
_OF_RUN = (MANIFEST_FILE, STOP_FILE)
_STOP = f"{STATE_DIR}/{STOP_FILE}"
_OF_ATTEMPT = (
    LINEAGE_FILE,
    LOG_FILE,
    METRICS_FILE,
    USAGE_FILE,
    PROVENANCE_FILE,
    COMPOSED_FILE,
    PRINTED_FILE,
    _EXIT,
    _STOP,
)
_NAME = r"[\w@+=,~-][\w.@+=,~:-]{0,240}"
_MANY = rf"{EVENTS_DIR}/{_NAME}\.jsonl|{VALIDATION_DIR}/(?:\d{{1,9}}\.jsonl|{re.escape(SUMMARY_FILE)})"
_TOP = "rlx-bundle"
_MOST_FILES = 20_000
_LEAST_ROOM, _MOST_RATIO = 256 << 20, 50
_HEADER = 1 << 16
_HINT = "a bundle is what rlx report --bundle wrote, as it is"


def _any(names: tuple[str, ...]) -> str:
    return "|".join(map(re.escape, names))


_IN_ATTEMPT = rf"{ATTEMPTS_DIR}/\d{{1,6}}/(?:{_any(_OF_ATTEMPT)}|{_MANY})"
_IN_RUN = rf"(?:{_any((*_OF_RUN, *_TAKEN_IN))}|{_IN_ATTEMPT})"
_PATH = re.compile(
    rf"{_any((DOCUMENT, SUMS, README))}|{FOLDER}/[0-9a-f]{{64}}\.json|{WAIVERS}/{RUN_ID.pattern}\.json|"
    rf"{RUNS}/(?P<run>{RUN_ID.pattern})/{_IN_RUN}",
    re.ASCII,
)


def belongs(path: str) -> bool:
    """Tell whether a bundle may hold a file of this name."""
    return _PATH.fullmatch(path) is not None


def run_of(path: str) -> str:
    """Return the id of the run that a file of a bundle belongs to; empty if to none."""
    found = _PATH.fullmatch(path)
    return found["run"] or "" if found else ""


def evidence_files(run_dir: Path) -> Iterator[str]:
    """List the files of a run that a verdict may need, by their paths in the run directory."""
    taken_in = _TAKEN_IN if (run_dir / SOURCE_FILE).is_file() else ()
    yield from _existing(run_dir, (*_OF_RUN, *taken_in), (*_OF_ATTEMPT, f"{EVENTS_DIR}/*", f"{VALIDATION_DIR}/*"))


def record_files(run_dir: Path) -> Iterator[str]:
    """List the files that say what a run was and how it ended, without its values."""
    yield from _existing(run_dir, _OF_RUN, (_EXIT, _STOP, LINEAGE_FILE))


def _existing(run_dir: Path, of_run: Iterable[str], of_attempts: Iterable[str]) -> Iterator[str]:
    patterns = (*of_run, *(f"{ATTEMPTS_DIR}/*/{name}" for name in of_attempts))
    found = (str(path.relative_to(run_dir)) for pattern in patterns for path in run_dir.glob(pattern))
    yield from (path for path in found if belongs(f"{RUNS}/run/{path}"))


def write_tar(folder: Path, names: Iterable[str], mark: str, file: BinaryIO) -> None:
    """Write these files of a folder, sorted, without times and owners. `mark` is readable at the beginning."""
    # A gzip member without content: gzip accepts several in sequence, and only a header holds comments.
    file.write(b"\x1f\x8b\x08\x10\0\0\0\0\x02\xff" + mark.encode("latin-1") + b"\0\x03\0" + bytes(8))
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in sorted(names):
            member = tarfile.TarInfo(f"{_TOP}/{name}")
            member.size, member.mode = (folder / name).stat().st_size, 0o644
            with (folder / name).open("rb") as content:
                tar.addfile(member, content)


def unpack_tar(archive: Path, folder: Path, belongs: Callable[[str], bool]) -> None:
    """Unpack a bundle into an empty folder. Raises RlxError for anything that `write_tar` would not have written.

    Nothing is written outside `folder`, and at most 50 times the size of the archive plus 256 MiB.
    """
    with _opened(archive) as (raw, size):
        text = _Allowance(archive, gzip.GzipFile(fileobj=raw), _LEAST_ROOM + _MOST_RATIO * size)
        with tarfile.open(fileobj=text, mode="r|") as tar:  # type: ignore[call-overload]
            for member in _members(archive, tar, belongs):
                text.allow(member.size)
                content = tar.extractfile(member)
                if content is not None:
                    _write(archive, folder / member.name.removeprefix(f"{_TOP}/"), content)


@contextmanager
def _opened(archive: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Open an archive; errors while it is read name it."""
    try:
        raw = open_regular(archive)
    except OSError as problem:
        raise RlxError(f"{archive}: {problem.strerror}", "name a bundle that you can read") from None
    try:
        with raw:
            yield raw, archive.stat().st_size
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, OverflowError) as problem:
        raise RlxError(f"{archive} is not a bundle, or is damaged: {problem}", _HINT) from None
    except OSError as problem:
        raise RlxError(
            f"{archive} cannot be unpacked: {problem.strerror}", "is the disk full? TMPDIR names another"
        ) from None


def _members(archive: Path, tar: tarfile.TarFile, belongs: Callable[[str], bool]) -> Iterator[tarfile.TarInfo]:
    """Yield the files of an archive. Raises RlxError for one that may not be in a bundle."""
    for count, member in enumerate(tar, start=1):
        # tarfile keeps every header otherwise.
        tar.members = []  # type: ignore[attr-defined]
        top, _, name = member.name.partition("/")
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.sparse is not None:
            raise RlxError(f"{archive}: {member.name[:200]!r} is no regular file", _HINT)
        if top != _TOP or not belongs(name):
            raise RlxError(f"{archive}: {member.name[:200]!r} does not belong in a bundle", _HINT)
        if count > _MOST_FILES:
            raise RlxError(f"{archive} holds more than {_MOST_FILES:,} files", _HINT)
        yield member


def _write(archive: Path, target: Path, content: IO[bytes]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with target.open("xb") as file:
            shutil.copyfileobj(content, file)
    except FileExistsError:
        raise RlxError(f"{archive} holds {target.name} twice", _HINT) from None


class _Allowance:
    """Limit what is read: a header, or the content of an allowed file, and `room` in all."""

    def __init__(self, archive: Path, text: gzip.GzipFile, room: int) -> None:
        self._archive, self._text, self._room, self._left = archive, text, room, _HEADER

    def allow(self, size: int) -> None:
        self._left = size + _HEADER

    def read(self, size: int) -> bytes:
        data = self._text.read(size)
        self._left -= len(data)
        self._room -= len(data)
        if self._room < 0:
            raise RlxError(
                f"{self._archive} unpacks to more than {_MOST_RATIO} times its size and {_LEAST_ROOM >> 20} MiB", _HINT
            )
        if self._left < 0:
            raise RlxError(f"{self._archive} has a header of more than {_HEADER >> 10} KiB", _HINT)
        return data
