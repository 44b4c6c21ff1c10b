"""Digest the files of a run by their inode, size and times, without reading them."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import rlx
from rlx.evidence import grammars
from rlx.evidence.reading import console
from rlx.evidence.reading import metrics_file as run_files
from rlx.evidence.reading import process_records as noise_records
from rlx.model.run_dir import (
    EVENTS_DIR,
    EXIT_FILE,
    LINEAGE_FILE,
    LOG_FILE,
    METRICS_FILE,
    PROVENANCE_FILE,
    STATE_DIR,
    USAGE_FILE,
    VALIDATION_DIR,
)
from rlx.payload import answer_summary

_FORMAT = 5
"""To be changed with the format in which evidence is kept."""
SETTLED_S = 2.0
"""A file that was written later than this may be written again without another time: clocks of disks are coarse."""
_FILES = (LINEAGE_FILE, LOG_FILE, METRICS_FILE, PROVENANCE_FILE, USAGE_FILE, f"{STATE_DIR}/{EXIT_FILE}")
_FOLDERS = (EVENTS_DIR, VALIDATION_DIR)


def digest_of(attempt_dirs: Sequence[Path]) -> str:
    """Return `digest_of_files` for all evidence in these attempts."""
    paths: list[str] = []
    for attempt in attempt_dirs:
        paths += [f"{attempt}/{name}" for name in _FILES]
        for name in _FOLDERS:
            with suppress(OSError):
                paths += sorted(map(str, (attempt / name).iterdir()))
    return digest_of_files(paths)


def digest_of_files(paths: Iterable[str | Path]) -> str:
    """Digest what distinguishes these files from all others and from earlier versions; empty if one was just written.

    The version of rlx is a part of it, because another version may read the files differently.
    """
    seen = [_stat(path) for path in paths]
    if time.time_ns() - max((changed for *_, changed in seen), default=0) < SETTLED_S * 1e9:
        return ""
    rules = _digest_of_rules(
        grammars.rows(),
        rlx.__version__,
        console.RULES,
        grammars.rules(),
        run_files.RULES,
        noise_records.RULES,
        noise_records.WEIGHT_RULES,
        answer_summary.RULES,
    )
    return hashlib.sha256(repr((rules, seen)).encode()).hexdigest()


@cache
def _digest_of_rules(rows: grammars.Rows, *rules: str) -> str:
    """Digest the rules and the program's own files: a checkout changes without a new version."""
    folder = Path(rlx.__file__).parent
    files = (
        *folder.glob("evidence/**/*.py"),
        *folder.glob("model/*.py"),
        *Path(answer_summary.__file__).parent.glob("*.py"),
        *grammars.sources(),
    )
    sources = [_stat(path) for path in sorted(files)]
    return hashlib.sha256(repr((_FORMAT, sys.byteorder, rules, sources)).encode()).hexdigest()


def _stat(path: str | Path) -> tuple[str | int, int, int, int, int, int]:
    """Return inode, size, and the times of writing and of change, the latter last; zeros if there is no file."""
    try:
        seen = Path(path).stat()
    except OSError:
        return str(path), 0, 0, 0, 0, 0
    return str(path), seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns
