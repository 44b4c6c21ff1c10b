"""Keep the records of removed runs, which are hidden from names and still count.

If runs could vanish, results could be selected. The record of a hidden run is kept in the index and beside the runs on
its host, so that another machine that queries the host gets it, too.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rlx.errors import UsageError
from rlx.local_files import parse_json
from rlx.model import from_jsonable, to_jsonable
from rlx.runs.run import utc_text
from rlx.runs.status.host_report import epoch_of

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS tombstones("
    " run_id TEXT PRIMARY KEY, document TEXT NOT NULL, on_host INTEGER NOT NULL CHECK (on_host IN (0, 1)))"
)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,299}")
_MOST_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class HiddenRun:
    """A removed run, and the host that it ran on. `created` and `removed` are epochs.

    `manifest`: the sha256 of its manifest, "" if unknown. `state` and `verdict`: when it was removed. `experiment`: the
    digest of the experiment that it is registered for, else "". `deleted`: its files are deleted, too.
    """

    run_id: str
    launch_id: str
    name: str
    arm: str
    seed: int
    host: str
    node: int
    position: int
    created: float
    manifest: str
    state: str
    verdict: str
    experiment: str
    removed: float
    by: str
    reason: str = ""
    deleted: bool = False

    @property
    def sentence(self) -> str:
        """Describe it: `tiny-aqn-s1-… (invalid) was removed 2026-11-24T12:00:00Z by me@laptop: wrong rate`."""
        what = "was removed with its files" if self.deleted else "was removed"
        text = f"{self.run_id} ({self.verdict}) {what} {utc_text(self.removed)} by {self.by}"
        return f"{text}: {self.reason}" if self.reason else text


def hidden_run_text(hidden: HiddenRun) -> str:
    """Write it as one line of JSON, which any shell can pass on."""
    return json.dumps(to_jsonable(hidden))


def parse_hidden_run(text: str) -> HiddenRun | None:
    """Parse such a record, which may come from any host; None if it is none."""
    try:
        found = from_jsonable(HiddenRun, parse_json(text))
        return found if _is_sound(found) else None
    except (ValueError, UsageError, RecursionError):
        return None


def _is_sound(found: HiddenRun) -> bool:
    """Check its values: they become table cells."""
    texts = (found.host, found.manifest, found.state, found.verdict, found.experiment, found.by, found.reason)
    return (
        all(_NAME.fullmatch(name) for name in (found.run_id, found.launch_id, found.name, found.arm))
        and all(abs(number) < 1 << 63 for number in (found.seed, found.node, found.position))
        and epoch_of(found.created) > 0
        and epoch_of(found.removed) > 0
        and all(len(text) <= _MOST_CHARACTERS and text.isprintable() for text in texts)
    )


def read(db: sqlite3.Connection) -> dict[str, HiddenRun]:
    """Read all hidden runs by run id."""
    rows = db.execute("SELECT document FROM tombstones")
    return {found.run_id: found for (text,) in rows if (found := parse_hidden_run(text))}


def on_hosts(db: sqlite3.Connection) -> frozenset[str]:
    """Return the ids of the runs that have such a record on their hosts, too."""
    return frozenset(row[0] for row in db.execute("SELECT run_id FROM tombstones WHERE on_host"))


def note(db: sqlite3.Connection, hidden_runs: Iterable[HiddenRun], *, on_host: bool) -> None:
    """Write these, each in place of an earlier one of its run. `on_host`: their hosts have them, too."""
    rows = [(each.run_id, hidden_run_text(each), on_host) for each in hidden_runs]
    db.executemany("REPLACE INTO tombstones VALUES (?, ?, ?)", rows)


def forget(db: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    db.executemany("DELETE FROM tombstones WHERE run_id = ?", [(run_id,) for run_id in run_ids])


def settle(db: sqlite3.Connection, reported: Mapping[str, HiddenRun], existing: Iterable[str]) -> None:
    """Update to what a host reports: such a record that it no longer has was withdrawn."""
    withdrawn = [(run_id,) for run_id in existing if run_id not in reported]
    db.executemany("DELETE FROM tombstones WHERE run_id = ? AND on_host", withdrawn)
    note(db, reported.values(), on_host=True)
