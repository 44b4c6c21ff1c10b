"""Keep the tags and the note of a run in a separate file, because the index may be rebuilt at any time.

Neither evidence nor verdict depends on them.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rlx.errors import RlxError, UsageError

T = TypeVar("T")

LABELS_FILE = "labels.db"
MOST_TAGS = 20
LONGEST_NOTE = 500
"""Characters."""

_BUSY_TIMEOUT_S = 30.0
_TAG = re.compile(r"\w[\w.-]{0,39}")
_TABLES = (
    "CREATE TABLE IF NOT EXISTS tags(run_id TEXT NOT NULL, tag TEXT NOT NULL, PRIMARY KEY (run_id, tag))",
    "CREATE TABLE IF NOT EXISTS notes(run_id TEXT PRIMARY KEY, text TEXT NOT NULL)",
)


@dataclass(frozen=True, slots=True)
class RunLabel:
    """The tags of a run, sorted, and its note; empty if there are none."""

    tags: tuple[str, ...] = ()
    note: str = ""


NO_LABEL = RunLabel()


def checked_tag(tag: str) -> str:
    """Return the tag. Raises UsageError unless it is one word of at most 40 letters, digits, `_`, `.` and `-`."""
    if _TAG.fullmatch(tag) is None:
        raise UsageError(f"{tag!r} is no tag", "one word of at most 40 letters, digits, _, . and -, such as keep")
    return tag


def checked_note(text: str) -> str:
    """Return the note on one line. Raises UsageError if it is too long, or no text."""
    note = " ".join(text.split())
    if len(note) > LONGEST_NOTE:
        raise UsageError(f"a note of {len(note)} characters", f"at most {LONGEST_NOTE}; put longer text into a file")
    try:
        note.encode()
    except UnicodeEncodeError:
        raise UsageError("the note is no text in the encoding of this terminal", "type it in UTF-8") from None
    return note


class Labels:
    """The labels in the folder `home`, which exists. Several rlx may use them at once."""

    def __init__(self, home: Path) -> None:
        self._path = home / LABELS_FILE

    def of(self, run_ids: Iterable[str]) -> Mapping[str, RunLabel]:
        """Read the labels of those of these runs that have any. Raises RlxError if the file cannot be read."""
        if not self._path.exists():
            return {}
        chosen = set(run_ids)
        return {run_id: label for run_id, label in self._guarded(_read).items() if run_id in chosen}

    def change(
        self,
        run_ids: Collection[str],
        *,
        add: Collection[str] = (),
        remove: Collection[str] = (),
        note: str | None = None,
    ) -> None:
        """Add and remove these tags at each of the runs, and set the note unless it is None; an empty one is removed.

        All changes are kept or none. Raises RlxError if a run would have too many tags, or nothing can be written.
        """
        self._guarded(lambda db: _change(db, run_ids, add, remove, note))

    def _guarded(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with closing(sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S)) as db, db:
                for statement in _TABLES:
                    db.execute(statement)
                return work(db)
        except sqlite3.OperationalError as error:
            raise RlxError(f"{self._path}: {error}", "check that the folder is writable and not full") from None
        except sqlite3.DatabaseError as error:
            # Its content exists nowhere else, so it is not replaced by an empty file.
            raise RlxError(f"{self._path}: {error}", "move it away: only tags and notes of runs are in it") from None


def _read(db: sqlite3.Connection) -> dict[str, RunLabel]:
    tags: dict[str, tuple[str, ...]] = {}
    for run_id, tag in db.execute("SELECT run_id, tag FROM tags ORDER BY tag"):
        tags[run_id] = (*tags.get(run_id, ()), tag)
    notes = dict(db.execute("SELECT run_id, text FROM notes").fetchall())
    return {run_id: RunLabel(tags.get(run_id, ()), notes.get(run_id, "")) for run_id in {*tags, *notes}}


def _change(
    db: sqlite3.Connection, run_ids: Collection[str], add: Collection[str], remove: Collection[str], note: str | None
) -> None:
    db.executemany("INSERT OR IGNORE INTO tags VALUES (?, ?)", [(run_id, tag) for run_id in run_ids for tag in add])
    db.executemany(
        "DELETE FROM tags WHERE run_id = ? AND tag = ?", [(run_id, tag) for run_id in run_ids for tag in remove]
    )
    if note is not None:
        db.executemany("DELETE FROM notes WHERE run_id = ?", [(run_id,) for run_id in run_ids])
        db.executemany("INSERT INTO notes VALUES (?, ?)", [(run_id, note) for run_id in run_ids if note])
    for run_id in run_ids:
        (count,) = db.execute("SELECT count(*) FROM tags WHERE run_id = ?", (run_id,)).fetchone()
        if count > MOST_TAGS:
            raise UsageError(
                f"{run_id} would have {count} tags, and {MOST_TAGS} is the most", "take some off: --remove"
            )
