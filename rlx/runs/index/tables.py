"""The tables of the index, and every statement about them.

Each function gets an open connection; what changes several rows is called within a transaction (`Index` opens it).
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from enum import StrEnum
from typing import Any

from rlx.errors import UsageError
from rlx.model import Place, RunState, from_jsonable, to_jsonable
from rlx.runs.index import hidden_runs
from rlx.runs.index.hidden_runs import HiddenRun
from rlx.runs.run import RunRef
from rlx.runs.status.observation import Observation

_VERSION = 4
_ARRIVAL_S = 3600.0
"""Nothing of a launch that was interrupted longer ago than this can still arrive."""

# Added without a new version. Tables keep their first names: promises (launched manifests), sightings (cached states),
# tombstones (hidden runs).
_LATER_TABLES = (
    "CREATE TABLE IF NOT EXISTS promises("
    " run_id TEXT NOT NULL, manifest TEXT NOT NULL, container TEXT NOT NULL, PRIMARY KEY (run_id, manifest))",
    hidden_runs.SCHEMA,
    "CREATE TABLE IF NOT EXISTS moves("
    " launch_id TEXT NOT NULL, seed INTEGER NOT NULL, number INTEGER NOT NULL, source TEXT NOT NULL,"
    " target TEXT NOT NULL, begun REAL NOT NULL, phase TEXT NOT NULL, PRIMARY KEY (launch_id, seed, number))",
    # Runs of scripts.
    "CREATE TABLE IF NOT EXISTS scripts(run_id TEXT PRIMARY KEY)",
)
# arrived: 1 yes, 0 not known yet, -1 the host says no and nothing is on its way any more.
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS launches("
    " launch_id TEXT PRIMARY KEY, digest TEXT NOT NULL, created REAL NOT NULL, resolved INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS runs("
    " run_id TEXT PRIMARY KEY, launch_id TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL,"
    " arm TEXT NOT NULL, seed INTEGER NOT NULL, host TEXT NOT NULL, destination TEXT, via TEXT NOT NULL,"
    " inside TEXT, root TEXT NOT NULL, created REAL NOT NULL, node INTEGER NOT NULL,"
    " arrived INTEGER NOT NULL CHECK (arrived IN (-1, 0, 1)))",
    "CREATE INDEX IF NOT EXISTS runs_by_launch ON runs(launch_id)",
    "CREATE TABLE IF NOT EXISTS sightings("
    " run_id TEXT PRIMARY KEY, state TEXT NOT NULL, observation TEXT NOT NULL, seen REAL, silent_since REAL)",
    *_LATER_TABLES,
    f"PRAGMA user_version = {_VERSION}",
)

_REF_COLUMNS = "run_id, launch_id, name, arm, seed, host, destination, via, inside, root, created, node"
_READ_COLUMNS = (
    f"{_REF_COLUMNS}, coalesce((SELECT max(container) FROM promises WHERE promises.run_id = runs.run_id), ''),"
    # Launches of other users are in no group with this user's.
    " CASE WHEN run_id IN (SELECT run_id FROM scripts) AND (destination IS NULL OR launch_id IN (SELECT launch_id FROM"
    " launches)) THEN name ELSE '' END"
)
_ADDED = {
    "destination": "TEXT",
    "via": "TEXT NOT NULL DEFAULT 'openssh'",
    "inside": "TEXT",
    "node": "INTEGER NOT NULL DEFAULT 0",
}
"""The columns of runs that were added after version 1, which knew this machine only; node came with version 4."""
_ENDS = (RunState.FINISHED, RunState.FAILED, RunState.STOPPED)
"""States with a recorded end. Not lost: a run that never started may be started after all."""
_REWRITE_S = 10.0
"""The same state is written again only after this long, to spare the disk."""


# ---- the file --------------------------------------------------------------------------------------------------------


def is_new(db: sqlite3.Connection) -> bool:
    """Tell whether the file is yet to be made, and bring one of an earlier version of rlx up to date.

    Raises sqlite3.DatabaseError for one of a later version.
    """
    version = _version(db)
    if version == 0:
        return True
    if not 0 < version <= _VERSION:
        raise sqlite3.DatabaseError(f"version {version} of another rlx, and this one knows up to {_VERSION}")
    if version < _VERSION:
        _migrate(db)
    for schema in _LATER_TABLES:
        db.execute(schema)
    return False


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _migrate(db: sqlite3.Connection) -> None:
    with transaction(db):
        # Another rlx may have migrated it meanwhile.
        if _version(db) < _VERSION:
            existing = {row[1] for row in db.execute("PRAGMA table_info(runs)")}
            for column in _ADDED.keys() - existing:
                db.execute(f"ALTER TABLE runs ADD COLUMN {column} {_ADDED[column]}")
            for statement in _SCHEMA:
                db.execute(statement)
            # A file that is no index fails here, unchanged.
            db.execute(f"SELECT {_READ_COLUMNS}, position, arrived FROM runs LIMIT 0")
            db.execute("SELECT launch_id, digest, created, resolved FROM launches LIMIT 0")


def create(db: sqlite3.Connection, refs: Sequence[tuple[RunRef, int]], removed: Sequence[HiddenRun] = ()) -> None:
    """Make the tables with these runs and hidden runs in them."""
    with transaction(db):
        for statement in _SCHEMA:
            db.execute(statement)
        for ref, position in refs:
            insert_run(db, ref, position, arrived=True)
        hidden_runs.note(db, removed, on_host=True)


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


# ---- runs ------------------------------------------------------------------------------------------------------------


def read_runs(db: sqlite3.Connection) -> tuple[RunRef, ...]:
    """Read all nodes of all runs; a head precedes its workers, because its id is a prefix of theirs."""
    # A launch stays together, also one that logs were added to later.
    newest = "max(created) OVER (PARTITION BY launch_id)"
    return _refs(db, f"WHERE arrived = 1 ORDER BY {newest} DESC, launch_id, position, run_id")


def read_workers(db: sqlite3.Connection) -> tuple[RunRef, ...]:
    return _refs(db, "WHERE arrived = 1 AND node > 0 ORDER BY launch_id, run_id")


def read_waiting(db: sqlite3.Connection) -> tuple[RunRef, ...]:
    return _refs(db, "WHERE arrived = 0")


def _refs(db: sqlite3.Connection, condition: str, values: Sequence[Any] = ()) -> tuple[RunRef, ...]:
    rows = db.execute(f"SELECT {_READ_COLUMNS} FROM runs {condition}", values)
    return tuple(
        RunRef(run_id, launch_id, name, arm, seed, Place(*place), root, created, node, container, group)
        for run_id, launch_id, name, arm, seed, *place, root, created, node, container, group in rows
    )


def insert_run(db: sqlite3.Connection, ref: RunRef, position: int, *, arrived: bool) -> None:
    """Add a run, or update where it is."""
    names, place = (ref.run_id, ref.launch_id, ref.name, ref.arm, ref.seed), astuple(ref.place)
    db.execute(
        f"INSERT INTO runs({_REF_COLUMNS}, position, arrived) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT(run_id) DO UPDATE SET arrived = max(arrived, excluded.arrived), host = excluded.host,"
        " destination = excluded.destination, via = excluded.via, inside = excluded.inside, root = excluded.root",
        (*names, *place, ref.root, ref.created, ref.node, position, arrived),
    )
    if ref.group:
        db.execute("INSERT OR IGNORE INTO scripts VALUES (?)", (ref.run_id,))


def settle(db: sqlite3.Connection, answered: Iterable[RunRef], existing: Container[str]) -> None:
    """Note which of the `answered` runs, whose hosts were queried, exist there."""
    long_ago = time.time() - _ARRIVAL_S
    for ref in answered:
        arrived = 1 if ref.run_id in existing else -1 if ref.created < long_ago else 0
        db.execute("UPDATE runs SET arrived = ? WHERE run_id = ? AND arrived = 0", (arrived, ref.run_id))


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run that a host reports: its position in its launch, and the digest of its manifest."""

    ref: RunRef
    position: int
    digest: str


def merge_found(
    db: sqlite3.Connection, found: Sequence[FoundRun], removed: Mapping[str, HiddenRun]
) -> tuple[tuple[RunRef, RunRef | None], ...]:
    """Add the runs that a host reports, and note which of them were `removed`.

    A run that contradicts the index changes nothing, and is returned with the known one; with None if it claims to
    belong to a launch from this machine that has no such run.
    """
    digests = read_digests(db, [one.ref.run_id for one in found])
    conflicts = tuple(conflict for one in found for conflict in _merge(db, one, digests.get(one.ref.run_id)))
    refused = {ref.run_id for ref, _ in conflicts}
    accepted = {one.ref.run_id for one in found} - refused
    hidden_runs.settle(db, {run_id: removed[run_id] for run_id in accepted & removed.keys()}, accepted)
    return conflicts


def _merge(
    db: sqlite3.Connection, found: FoundRun, digests: frozenset[str] | None
) -> Iterator[tuple[RunRef, RunRef | None]]:
    def find(run_id: str) -> RunRef | None:
        return next(iter(_refs(db, "WHERE run_id = ?", (run_id,))), None)

    ref, known = found.ref, find(found.ref.run_id)
    if known is None and ref.launch_id in own_launches(db) and find(ref.head_id) is None:
        yield ref, None
    elif known is not None and not (_is_same(known, ref) and (digests is None or found.digest in digests)):
        yield ref, known
    else:
        insert_run(db, ref, found.position, arrived=True)
        keep_manifests(db, [(ref.run_id, "", ref.container)] if ref.container else [])


def _is_same(known: RunRef, reported: RunRef) -> bool:
    """Tell whether a host reports the known run where it was launched: under its host's name or its address."""
    same_run = replace(reported, place=known.place, root=known.root) == known
    before, now = known.place, reported.place
    same_host = before.host == now.host or (before.destination, before.via) == (now.destination, now.via)
    return same_run and same_host and before.inside == now.inside


# ---- launches --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PendingLaunch:
    """A launch in the journal. `is_new` is False if an earlier rlx began it and was interrupted."""

    launch_id: str
    runs: tuple[RunRef, ...]
    is_new: bool


def find_pending(db: sqlite3.Connection, digest: str) -> PendingLaunch | None:
    row = db.execute(
        "SELECT launch_id FROM launches WHERE digest = ? AND NOT resolved ORDER BY created DESC", (digest,)
    ).fetchone()
    return PendingLaunch(row[0], read_launch(db, row[0]), is_new=False) if row else None


def begin(db: sqlite3.Connection, digest: str, launch_id: str, refs: Sequence[RunRef]) -> PendingLaunch:
    """Add a launch, unless one with the same digest is pending: then return that."""
    if pending := find_pending(db, digest):
        return pending
    db.execute("INSERT INTO launches VALUES (?, ?, ?, 0)", (launch_id, digest, refs[0].created))
    for position, ref in enumerate(refs):
        insert_run(db, ref, position, arrived=False)
    return PendingLaunch(launch_id, tuple(refs), is_new=True)


def mark_resolved(db: sqlite3.Connection, launch_id: str) -> None:
    db.execute("UPDATE launches SET resolved = 1 WHERE launch_id = ?", (launch_id,))
    db.execute("UPDATE runs SET arrived = 1 WHERE launch_id = ?", (launch_id,))


def forget(db: sqlite3.Connection, launch_id: str) -> None:
    db.execute("DELETE FROM launches WHERE launch_id = ?", (launch_id,))
    db.execute("DELETE FROM runs WHERE launch_id = ?", (launch_id,))


def read_launch(db: sqlite3.Connection, launch_id: str) -> tuple[RunRef, ...]:
    """Read all runs of a launch in their order, also those that may not have arrived."""
    return _refs(db, "WHERE launch_id = ? ORDER BY position", (launch_id,))


def read_interrupted(db: sqlite3.Connection, name: str) -> tuple[RunRef, ...]:
    """Read the newest launch of a recipe of this name that has runs which may not have arrived."""
    row = db.execute(
        "SELECT launch_id FROM runs WHERE arrived = 0 AND name = ? ORDER BY created DESC", (name,)
    ).fetchone()
    return read_launch(db, row[0]) if row else ()


def read_request(db: sqlite3.Connection, launch_id: str) -> str:
    """Read the digest of what was launched; empty for a launch from elsewhere."""
    row = db.execute("SELECT digest FROM launches WHERE launch_id = ?", (launch_id,)).fetchone()
    return row[0] if row else ""


def own_launches(db: sqlite3.Connection) -> frozenset[str]:
    """Read the ids of the launches from this machine."""
    return frozenset(row[0] for row in db.execute("SELECT launch_id FROM launches"))


# ---- manifests and containers: host and container can rewrite a run directory; this is from the launch --------------


def keep_manifests(db: sqlite3.Connection, rows: Iterable[tuple[str, str, str]]) -> None:
    """Keep run id, digest of the manifest (empty: not known) and container (empty: none) of each run."""
    db.executemany("INSERT OR IGNORE INTO promises VALUES (?, ?, ?)", rows)


def read_digests(db: sqlite3.Connection, run_ids: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Read the digests of the manifests that were sent for these runs; several if two versions of rlx sent them."""
    chosen = set(run_ids)
    found: dict[str, frozenset[str]] = {}
    for run_id, digest in db.execute("SELECT run_id, manifest FROM promises WHERE manifest != ''"):
        if run_id in chosen:
            found[run_id] = found.get(run_id, frozenset()) | {digest}
    return found


# ---- moves of blocks of a sweep --------------------------------------------------------------------------------------


class MovePhase(StrEnum):
    """How far a move has come.

    asked: the source may have withdrawn the block, no answer came. withdrawn: it has, and no host has the block.
    sent: it may have arrived at the target, no answer came. done: it has arrived.
    """

    ASKED = "asked"
    WITHDRAWN = "withdrawn"
    SENT = "sent"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Move:
    """The `number`th move of a block, from 1. `source` and `target` are names of hosts; `begun` is an epoch."""

    launch_id: str
    seed: int
    number: int
    source: str
    target: str
    begun: float
    phase: MovePhase

    @property
    def has_left(self) -> bool:
        """Tell whether the block belongs to the target, arrived or not."""
        return self.phase in (MovePhase.SENT, MovePhase.DONE)


def read_moves(db: sqlite3.Connection, launch_id: str) -> tuple[Move, ...]:
    """Read the moves of a launch, oldest first."""
    rows = db.execute("SELECT * FROM moves WHERE launch_id = ? ORDER BY seed, number", (launch_id,))
    return tuple(map(_move, rows))


def read_open_moves(db: sqlite3.Connection, run_ids: Iterable[str]) -> dict[str, Move]:
    """Read the moves that are not done, by the ids of the moved runs."""
    chosen = set(run_ids)
    rows = db.execute(
        "SELECT runs.run_id, moves.* FROM moves JOIN runs USING (launch_id, seed) WHERE phase != ?", (MovePhase.DONE,)
    )
    return {row[0]: _move(row[1:]) for row in rows if row[0] in chosen}


def _move(row: tuple[Any, ...]) -> Move:
    launch_id, seed, number, source, target, begun, phase = row
    return Move(launch_id, seed, number, source, target, begun, MovePhase(phase))


def write_move(db: sqlite3.Connection, move: Move) -> None:
    """Add the move, or note how far it has come."""
    db.execute("INSERT OR REPLACE INTO moves VALUES (?, ?, ?, ?, ?, ?, ?)", astuple(move))


def drop_move(db: sqlite3.Connection, move: Move) -> None:
    key = (move.launch_id, move.seed, move.number)
    db.execute("DELETE FROM moves WHERE launch_id = ? AND seed = ? AND number = ?", key)


def relocate(db: sqlite3.Connection, move: Move, refs: Sequence[RunRef]) -> None:
    """Note that the runs of a block are sent where these references say, under their ids."""
    write_move(db, move)
    for ref in refs:
        place = (*astuple(ref.place), ref.root, ref.run_id)
        columns = "host = ?, destination = ?, via = ?, inside = ?, root = ?, arrived = 1"
        db.execute(f"UPDATE runs SET {columns} WHERE run_id = ?", place)
        # Its cached state and its container belong to the earlier host.
        db.execute("DELETE FROM sightings WHERE run_id = ?", (ref.run_id,))
        db.execute("UPDATE promises SET container = '' WHERE run_id = ?", (ref.run_id,))


# ---- cached states ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CachedState:
    """What was last known of a run on another machine; times are epochs by the clock of this machine.

    `seen` is None for a run that was never seen. `silent_since`: when the host first failed to answer after that;
    None while it answers.
    """

    observation: Observation
    seen: float | None
    silent_since: float | None


def read_cached_states(db: sqlite3.Connection, run_ids: Iterable[str]) -> dict[str, CachedState]:
    """Read what is cached of these runs, without what another version of rlx wrote."""
    chosen = set(run_ids)
    found: dict[str, CachedState] = {}
    for run_id, text, seen, silent_since in db.execute("SELECT run_id, observation, seen, silent_since FROM sightings"):
        if run_id in chosen:
            try:
                found[run_id] = CachedState(from_jsonable(Observation, json.loads(text)), seen, silent_since)
            except (ValueError, UsageError):
                continue
    return found


def cache_states(db: sqlite3.Connection, observations: Sequence[Observation], now: float) -> None:
    """Keep what is new in these observations."""
    known = read_cached_states(db, [observation.run_id for observation in observations])
    for observation in observations:
        state = _changed(observation, known.get(observation.run_id), now)
        if state is not None:
            text = json.dumps(to_jsonable(state.observation))
            row = (observation.run_id, state.observation.state, text, state.seen, state.silent_since)
            db.execute("REPLACE INTO sightings VALUES (?, ?, ?, ?, ?)", row)


def _changed(found: Observation, before: CachedState | None, now: float) -> CachedState | None:
    """Return what to write; None if that is cached already."""
    if found.state is RunState.UNREACHABLE:
        since = found.unreachable_since or now
        if before is None:
            return CachedState(found, None, since)
        return replace(before, silent_since=since) if before.silent_since is None else None
    if before is not None and before.seen is not None and before.silent_since is None:
        is_ended = found.state.is_terminal and found == before.observation
        if found.state is before.observation.state and (is_ended or now - before.seen <= _REWRITE_S):
            return None
    return CachedState(found, now, None)


def read_ended(db: sqlite3.Connection) -> frozenset[str]:
    """Read the ids of the runs that are known to have ended; another query could only confirm it."""
    marks = ", ".join("?" * len(_ENDS))
    return frozenset(row[0] for row in db.execute(f"SELECT run_id FROM sightings WHERE state IN ({marks})", _ENDS))
