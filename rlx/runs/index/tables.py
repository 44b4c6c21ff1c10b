"""The tables of the index, and every statement about them. Each function gets an open connection."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from typing import Any

from rlx.model import Place
from rlx.runs.index import moves, promises, sightings, tombstones
from rlx.runs.index.tombstones import Tombstone
from rlx.runs.looking.observation import Observation
from rlx.runs.run import RunRef

_VERSION = 4
_ARRIVAL_S = 3600.0
"""A launch that was interrupted longer ago than this has nothing under way that could still arrive."""

# arrived: 1 yes, 0 nobody has heard yet, -1 the host says no and nothing is under way any more.
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS launches("
    " launch_id TEXT PRIMARY KEY, digest TEXT NOT NULL, created REAL NOT NULL, resolved INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS runs("
    " run_id TEXT PRIMARY KEY, launch_id TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL,"
    " arm TEXT NOT NULL, seed INTEGER NOT NULL, host TEXT NOT NULL, destination TEXT, via TEXT NOT NULL,"
    " inside TEXT, root TEXT NOT NULL, created REAL NOT NULL, node INTEGER NOT NULL,"
    " arrived INTEGER NOT NULL CHECK (arrived IN (-1, 0, 1)))",
    "CREATE INDEX IF NOT EXISTS runs_by_launch ON runs(launch_id)",
    sightings.SCHEMA,
    promises.SCHEMA,
    tombstones.SCHEMA,
    moves.SCHEMA,
    f"PRAGMA user_version = {_VERSION}",
)

_REF_COLUMNS = "run_id, launch_id, name, arm, seed, host, destination, via, inside, root, created, node"
_READ_COLUMNS = f"{_REF_COLUMNS}, {promises.CONTAINER}"


@dataclass(frozen=True, slots=True)
class Found:
    """A run that a host shows: its position in its launch, and the digest of its manifest."""

    ref: RunRef
    position: int
    digest: str


@dataclass(frozen=True, slots=True)
class PendingLaunch:
    """A launch in the journal. `is_new` is False when an earlier rlx began it and was interrupted."""

    launch_id: str
    runs: tuple[RunRef, ...]
    is_new: bool


def is_new(db: sqlite3.Connection) -> bool:
    """Tell whether the file is to be made. One of an older rlx becomes one of this.

    Raises sqlite3.DatabaseError for one of a newer rlx.
    """
    version = _version(db)
    if version == 0:
        return True
    if not 0 < version <= _VERSION:
        raise sqlite3.DatabaseError(f"version {version} of another rlx, and this one knows up to {_VERSION}")
    if version < _VERSION:
        _migrate(db)
    # Made by an rlx that had no such tables.
    for schema in (promises.SCHEMA, tombstones.SCHEMA, moves.SCHEMA):
        db.execute(schema)
    return False


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


_ADDED = {
    "destination": "TEXT",
    "via": "TEXT NOT NULL DEFAULT 'openssh'",
    "inside": "TEXT",
    "node": "INTEGER NOT NULL DEFAULT 0",
}
"""What runs got since version 1, which knew this machine only; node came with version 4."""


def _migrate(db: sqlite3.Connection) -> None:
    with transaction(db):
        # Several rlx may find it at the same time.
        if _version(db) < _VERSION:
            there = {row[1] for row in db.execute("PRAGMA table_info(runs)")}
            for column in _ADDED.keys() - there:
                db.execute(f"ALTER TABLE runs ADD COLUMN {column} {_ADDED[column]}")
            for statement in _SCHEMA:
                db.execute(statement)
            # Fails here, and changes nothing, where it was no index.
            db.execute(f"SELECT {_READ_COLUMNS}, position, arrived FROM runs LIMIT 0")
            db.execute("SELECT launch_id, digest, created, resolved FROM launches LIMIT 0")


def create(db: sqlite3.Connection, refs: Sequence[tuple[RunRef, int]], removed: Sequence[Tombstone] = ()) -> None:
    with transaction(db):
        for statement in _SCHEMA:
            db.execute(statement)
        _insert_arrived(db, refs)
        tombstones.note(db, removed, on_host=True)


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def read_runs(db: sqlite3.Connection) -> tuple[RunRef, ...]:
    """All nodes of them: the head comes before its workers, since an id is the beginning of theirs."""
    # A launch stays together, also one that logs were added to later.
    newest = "max(created) OVER (PARTITION BY launch_id)"
    rows = db.execute(
        f"SELECT {_READ_COLUMNS} FROM runs WHERE arrived = 1 ORDER BY {newest} DESC, launch_id, position, run_id"
    )
    return tuple(map(_ref, rows))


def read_workers(db: sqlite3.Connection) -> tuple[RunRef, ...]:
    rows = db.execute(f"SELECT {_READ_COLUMNS} FROM runs WHERE arrived = 1 AND node > 0 ORDER BY launch_id, run_id")
    return tuple(map(_ref, rows))


def _ref(row: tuple[Any, ...]) -> RunRef:
    run_id, launch_id, name, arm, seed, *place, root, created, node, container = row
    return RunRef(run_id, launch_id, name, arm, seed, Place(*place), root, created, node, container)


def _columns(ref: RunRef) -> tuple[Any, ...]:
    """List values in the order of _REF_COLUMNS."""
    place = astuple(ref.place)
    return (ref.run_id, ref.launch_id, ref.name, ref.arm, ref.seed, *place, ref.root, ref.created, ref.node)


def read_waiting(db: sqlite3.Connection) -> tuple[RunRef, ...]:
    return tuple(map(_ref, db.execute(f"SELECT {_READ_COLUMNS} FROM runs WHERE arrived = 0")))


def read_interrupted(db: sqlite3.Connection, name: str) -> tuple[RunRef, ...]:
    waiting = db.execute(
        "SELECT launch_id FROM runs WHERE arrived = 0 AND name = ? ORDER BY created DESC", (name,)
    ).fetchone()
    if waiting is None:
        return ()
    return tuple(
        map(_ref, db.execute(f"SELECT {_READ_COLUMNS} FROM runs WHERE launch_id = ? ORDER BY position", waiting))
    )


def settle(db: sqlite3.Connection, answered: Iterable[RunRef], there: Container[str]) -> None:
    """The hosts of `answered` have told which of these runs are there."""
    long_ago = time.time() - _ARRIVAL_S
    with transaction(db):
        for ref in answered:
            arrived = 1 if ref.run_id in there else -1 if ref.created < long_ago else 0
            db.execute("UPDATE runs SET arrived = ? WHERE run_id = ? AND arrived = 0", (arrived, ref.run_id))


def find_pending(db: sqlite3.Connection, digest: str) -> PendingLaunch | None:
    row = db.execute(
        "SELECT launch_id FROM launches WHERE digest = ? AND NOT resolved ORDER BY created DESC", (digest,)
    ).fetchone()
    if row is None:
        return None
    runs = db.execute(f"SELECT {_READ_COLUMNS} FROM runs WHERE launch_id = ? ORDER BY position", row)
    return PendingLaunch(row[0], tuple(map(_ref, runs)), is_new=False)


def begin(db: sqlite3.Connection, digest: str, launch_id: str, refs: Sequence[RunRef]) -> PendingLaunch:
    with transaction(db):
        if pending := find_pending(db, digest):
            return pending
        db.execute("INSERT INTO launches VALUES (?, ?, ?, 0)", (launch_id, digest, refs[0].created))
        for position, ref in enumerate(refs):
            _insert_run(db, ref, position, arrived=False)
    return PendingLaunch(launch_id, tuple(refs), is_new=True)


def _insert_run(db: sqlite3.Connection, ref: RunRef, position: int, *, arrived: bool) -> None:
    db.execute(
        f"INSERT INTO runs({_REF_COLUMNS}, position, arrived) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT(run_id) DO UPDATE SET arrived = max(arrived, excluded.arrived), host = excluded.host,"
        " destination = excluded.destination, via = excluded.via, inside = excluded.inside, root = excluded.root",
        (*_columns(ref), position, arrived),
    )


def mark_resolved(db: sqlite3.Connection, launch_id: str) -> None:
    with transaction(db):
        db.execute("UPDATE launches SET resolved = 1 WHERE launch_id = ?", (launch_id,))
        db.execute("UPDATE runs SET arrived = 1 WHERE launch_id = ?", (launch_id,))


def read_launch(db: sqlite3.Connection, launch_id: str) -> tuple[RunRef, ...]:
    """All runs of it in their order, also those that nobody has heard of."""
    rows = db.execute(f"SELECT {_READ_COLUMNS} FROM runs WHERE launch_id = ? ORDER BY position", (launch_id,))
    return tuple(map(_ref, rows))


def read_asked(db: sqlite3.Connection, launch_id: str) -> str:
    row = db.execute("SELECT digest FROM launches WHERE launch_id = ?", (launch_id,)).fetchone()
    return row[0] if row else ""


def send(db: sqlite3.Connection, move: moves.Move, refs: Sequence[RunRef]) -> None:
    """The runs of a block are about to go where these references say, under their ids."""
    with transaction(db):
        moves.write(db, move)
        for ref in refs:
            place = (*astuple(ref.place), ref.root, ref.run_id)
            columns = "host = ?, destination = ?, via = ?, inside = ?, root = ?, arrived = 1"
            db.execute(f"UPDATE runs SET {columns} WHERE run_id = ?", place)
            # What was seen of it, and its container, were where it was.
            db.execute("DELETE FROM sightings WHERE run_id = ?", (ref.run_id,))
            db.execute("UPDATE promises SET container = '' WHERE run_id = ?", (ref.run_id,))


def note_move(db: sqlite3.Connection, move: moves.Move) -> None:
    with transaction(db):
        moves.write(db, move)


def drop_move(db: sqlite3.Connection, move: moves.Move) -> None:
    with transaction(db):
        moves.drop(db, move)


def forget(db: sqlite3.Connection, launch_id: str) -> None:
    with transaction(db):
        db.execute("DELETE FROM launches WHERE launch_id = ?", (launch_id,))
        db.execute("DELETE FROM runs WHERE launch_id = ?", (launch_id,))


def add(db: sqlite3.Connection, refs: Sequence[tuple[RunRef, int]]) -> None:
    with transaction(db):
        _insert_arrived(db, refs)


def meet(
    db: sqlite3.Connection, found: Sequence[Found], removed: Mapping[str, Tombstone]
) -> tuple[tuple[RunRef, RunRef | None], ...]:
    """Add the runs that a host shows, and which of them were `removed`.

    What contradicts the index changes nothing, and comes back with what is known. None is known of a run that nobody
    here launched, and that says it belongs to a launch from here.
    """
    with transaction(db):
        digests = promises.read_digests(db, [one.ref.run_id for one in found])
        conflicts = tuple(conflict for one in found for conflict in _meet(db, one, digests.get(one.ref.run_id)))
        refused = {ref.run_id for ref, _ in conflicts}
        there = {one.ref.run_id for one in found} - refused
        tombstones.settle(db, {run_id: removed[run_id] for run_id in there & removed.keys()}, there)
        return conflicts


def _meet(
    db: sqlite3.Connection, found: Found, digests: frozenset[str] | None
) -> Iterator[tuple[RunRef, RunRef | None]]:
    ref, known = found.ref, _find(db, found.ref.run_id)
    if known is None and ref.launch_id in own_launches(db) and _find(db, ref.head_id) is None:
        yield ref, None
    elif known is not None and not (_is_same(known, ref) and (digests is None or found.digest in digests)):
        yield ref, known
    else:
        _insert_run(db, ref, found.position, arrived=True)
        promises.note(db, [(ref.run_id, "", ref.container)] if ref.container else [])


def _is_same(known: RunRef, shown: RunRef) -> bool:
    """Tell whether a host shows the run that is known, where it was launched: under its host's name or its address."""
    same_run = replace(shown, place=known.place, root=known.root) == known
    before, now = known.place, shown.place
    same_host = before.host == now.host or (before.destination, before.via) == (now.destination, now.via)
    return same_run and same_host and before.inside == now.inside


def _find(db: sqlite3.Connection, run_id: str) -> RunRef | None:
    row = db.execute(f"SELECT {_READ_COLUMNS} FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    return _ref(row) if row else None


def own_launches(db: sqlite3.Connection) -> frozenset[str]:
    """The launches that were typed here: their names mean them before what hosts show."""
    return frozenset(row[0] for row in db.execute("SELECT launch_id FROM launches"))


def _insert_arrived(db: sqlite3.Connection, refs: Sequence[tuple[RunRef, int]]) -> None:
    for ref, position in refs:
        _insert_run(db, ref, position, arrived=True)


def promise(db: sqlite3.Connection, rows: Iterable[tuple[str, str, str]]) -> None:
    with transaction(db):
        promises.note(db, rows)


def bury(db: sqlite3.Connection, removed: Sequence[Tombstone], *, on_host: bool) -> None:
    with transaction(db):
        tombstones.note(db, removed, on_host=on_host)


def restore(db: sqlite3.Connection, run_ids: Sequence[str]) -> None:
    with transaction(db):
        tombstones.forget(db, run_ids)


def note(db: sqlite3.Connection, seen: Sequence[Observation], now: float) -> None:
    with transaction(db):
        sightings.note(db, seen, now)
