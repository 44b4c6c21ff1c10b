"""The index: which runs this user launched, and the journal of launches that are under way.

A cache in SQLite. What it knows of runs can be rebuilt from their directories at any time, so a broken file is moved
aside and rebuilt; only the journal is its own, and only until the launch it names has arrived.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, TypeVar

from rlx.errors import RlxError
from rlx.hosts import local_site
from rlx.plan import Place, Site
from rlx.runs.manifest import Manifest, fetch_manifests, parse_manifest
from rlx.runs.observe import look
from rlx.runs.run import RunRef

T = TypeVar("T")

_VERSION = 2
_BUSY_TIMEOUT_S = 30.0
_ARRIVAL_S = 3600.0
"""A launch that was interrupted longer ago than this has nothing under way that could still arrive."""

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS launches("
    " launch_id TEXT PRIMARY KEY, digest TEXT NOT NULL, created REAL NOT NULL, resolved INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS runs("
    " run_id TEXT PRIMARY KEY, launch_id TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL,"
    " arm TEXT NOT NULL, seed INTEGER NOT NULL, host TEXT NOT NULL, destination TEXT, via TEXT NOT NULL,"
    " inside TEXT, root TEXT NOT NULL, created REAL NOT NULL,"
    " arrived INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS runs_by_launch ON runs(launch_id)",
    f"PRAGMA user_version = {_VERSION}",
)

_REF_COLUMNS = "run_id, launch_id, name, arm, seed, host, destination, via, inside, root, created"


@dataclass(frozen=True, slots=True)
class PendingLaunch:
    """A launch in the journal. `is_new` is False when an earlier rlx began it and was interrupted."""

    launch_id: str
    runs: tuple[RunRef, ...]
    is_new: bool


class Index:
    """Opens the index in `home`, or builds it from the runs on this machine. Safe for several rlx at once."""

    def __init__(self, home: Path) -> None:
        self.path = home / "index.db"
        _make_folder(home)
        if self._guarded(_is_new):
            self._create()

    def runs(self) -> tuple[RunRef, ...]:
        """All runs that exist, the newest launch first, each launch in the order of its recipe."""
        self._settle()
        return self._guarded(_read_runs)

    def rebuild(self, site: Site) -> None:
        """Add every run that lies below the root of a site, also those that another rlx launched."""
        known = {ref.run_id for ref in self._guarded(_read_runs)}
        found = [(ref, position) for ref, position in _find_runs(site) if ref.run_id not in known]
        if found:
            self._guarded(lambda db: _add(db, found))

    def pending(self, digest: str) -> PendingLaunch | None:
        """The unresolved launch of exactly these plans."""
        return self._guarded(lambda db: _find_pending(db, digest))

    def begin(self, digest: str, launch_id: str, refs: Sequence[RunRef]) -> PendingLaunch:
        """Journal a launch before anything is shipped, or join the one that another rlx is at with the same plans."""
        return self._guarded(lambda db: _begin(db, digest, launch_id, refs))

    def resolve_launch(self, launch_id: str) -> None:
        """All runs have arrived: the same plans launched again are a new launch."""
        self._guarded(lambda db: _mark_resolved(db, launch_id))

    def forget(self, launch_id: str) -> None:
        """Nothing of the launch reached its host."""
        self._guarded(lambda db: _forget(db, launch_id))

    def _settle(self) -> None:
        """Look which runs of interrupted launches did arrive; the others are no runs."""
        waiting = self._guarded(_read_waiting)
        if waiting:
            arrived = look(waiting)
            self._guarded(lambda db: _mark_arrived(db, arrived))

    def _create(self) -> None:
        """Tables and what is known to belong into them appear at once: nobody sees an index without its runs."""
        refs = _find_runs(local_site())
        self._guarded(lambda db: _create(db, refs))

    def _guarded(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return self._with_connection(work)
        except sqlite3.OperationalError as error:
            raise RlxError(f"{self.path}: {error}", "check that the folder is writable and not full") from None
        except sqlite3.DatabaseError:
            self._set_aside()
            self._create()
            return self._with_connection(work)

    def _with_connection(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with closing(sqlite3.connect(self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)) as db:
            return work(db)

    def _set_aside(self) -> None:
        kept = self.path.with_name(f"index.db.broken-{time.time_ns()}")
        self.path.with_name("index.db-journal").unlink(missing_ok=True)
        # Another rlx may have been faster.
        with suppress(FileNotFoundError):
            self.path.replace(kept)


def _make_folder(home: Path) -> None:
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RlxError(f"{home}: {error.strerror}", "set RLX_HOME to a folder you can write to") from None


def _is_new(db: sqlite3.Connection) -> bool:
    """Another version's file counts as broken: it is only a cache."""
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version not in (0, _VERSION):
        raise sqlite3.DatabaseError(f"version {version}")
    return version == 0


def _create(db: sqlite3.Connection, refs: Sequence[tuple[RunRef, int]]) -> None:
    with _transaction(db):
        for statement in _SCHEMA:
            db.execute(statement)
        _insert_arrived(db, refs)


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _read_runs(db: sqlite3.Connection) -> tuple[RunRef, ...]:
    rows = db.execute(
        f"SELECT {_REF_COLUMNS} FROM runs WHERE arrived ORDER BY created DESC, launch_id, position, run_id"
    )
    return tuple(map(_ref, rows))


def _ref(row: tuple[Any, ...]) -> RunRef:
    run_id, launch_id, name, arm, seed, *place, root, created = row
    return RunRef(run_id, launch_id, name, arm, seed, Place(*place), root, created)


def _columns(ref: RunRef) -> tuple[Any, ...]:
    """In the order of _REF_COLUMNS."""
    place = astuple(ref.place)
    return (ref.run_id, ref.launch_id, ref.name, ref.arm, ref.seed, *place, ref.root, ref.created)


def _read_waiting(db: sqlite3.Connection) -> tuple[RunRef, ...]:
    rows = db.execute(f"SELECT {_REF_COLUMNS} FROM runs WHERE NOT arrived AND created > ?", (time.time() - _ARRIVAL_S,))
    return tuple(map(_ref, rows))


def _mark_arrived(db: sqlite3.Connection, run_ids: Iterable[str]) -> None:
    with _transaction(db):
        db.executemany("UPDATE runs SET arrived = 1 WHERE run_id = ?", [(run_id,) for run_id in run_ids])


def _find_pending(db: sqlite3.Connection, digest: str) -> PendingLaunch | None:
    row = db.execute(
        "SELECT launch_id FROM launches WHERE digest = ? AND NOT resolved ORDER BY created DESC", (digest,)
    ).fetchone()
    if row is None:
        return None
    runs = db.execute(f"SELECT {_REF_COLUMNS} FROM runs WHERE launch_id = ? ORDER BY position", row)
    return PendingLaunch(row[0], tuple(map(_ref, runs)), is_new=False)


def _begin(db: sqlite3.Connection, digest: str, launch_id: str, refs: Sequence[RunRef]) -> PendingLaunch:
    with _transaction(db):
        if pending := _find_pending(db, digest):
            return pending
        db.execute("INSERT INTO launches VALUES (?, ?, ?, 0)", (launch_id, digest, refs[0].created))
        for position, ref in enumerate(refs):
            _insert_run(db, ref, position, arrived=False)
    return PendingLaunch(launch_id, tuple(refs), is_new=True)


def _insert_run(db: sqlite3.Connection, ref: RunRef, position: int, *, arrived: bool) -> None:
    db.execute(
        f"INSERT INTO runs({_REF_COLUMNS}, position, arrived) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT(run_id) DO UPDATE SET arrived = arrived OR excluded.arrived",
        (*_columns(ref), position, arrived),
    )


def _mark_resolved(db: sqlite3.Connection, launch_id: str) -> None:
    with _transaction(db):
        db.execute("UPDATE launches SET resolved = 1 WHERE launch_id = ?", (launch_id,))
        db.execute("UPDATE runs SET arrived = 1 WHERE launch_id = ?", (launch_id,))


def _forget(db: sqlite3.Connection, launch_id: str) -> None:
    with _transaction(db):
        db.execute("DELETE FROM launches WHERE launch_id = ?", (launch_id,))
        db.execute("DELETE FROM runs WHERE launch_id = ?", (launch_id,))


def _find_runs(site: Site) -> list[tuple[RunRef, int]]:
    """Every run below the root of a site, with its position in its launch."""
    # One of another version of rlx is no reason to go without the others.
    manifests = map(parse_manifest, fetch_manifests(site.place, site.root))
    return [(_ref_of(manifest, site), manifest.position) for manifest in manifests if manifest is not None]


def _ref_of(manifest: Manifest, site: Site) -> RunRef:
    plan, created = manifest.plan, manifest.created_epoch
    return RunRef(manifest.run_id, manifest.launch_id, plan.name, plan.arm, plan.seed, site.place, site.root, created)


def _add(db: sqlite3.Connection, refs: Sequence[tuple[RunRef, int]]) -> None:
    with _transaction(db):
        _insert_arrived(db, refs)


def _insert_arrived(db: sqlite3.Connection, refs: Sequence[tuple[RunRef, int]]) -> None:
    for ref, position in refs:
        _insert_run(db, ref, position, arrived=True)
