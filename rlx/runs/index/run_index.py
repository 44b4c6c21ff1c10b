"""The index: which runs this user launched, and the journal of launches that are under way.

SQLite. Most of what it knows of runs can be found again on their hosts, but not all: digests of manifests, containers
and the journals of launches and moves are nowhere else. So a file that cannot be used is an error, and only
`rlx hosts reindex` makes another one, beside the old.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from stat import S_ISREG
from typing import TypeVar

from rlx.errors import RlxError
from rlx.hosts import local_site
from rlx.model import Finding, Severity, Site
from rlx.runs.adopted.adopted_dirs import adopted_refs, adopted_tombstones
from rlx.runs.index import moves, promises, sightings, tables, tombstones
from rlx.runs.index.moves import Move
from rlx.runs.index.set_aside import INDEX_FILE
from rlx.runs.index.shown import ShownRun, shown_by
from rlx.runs.index.sightings import Sighting
from rlx.runs.index.tables import Found, PendingLaunch
from rlx.runs.index.tombstones import Tombstone
from rlx.runs.looking.observation import Observation
from rlx.runs.looking.state_report import request_reports
from rlx.runs.run import RunRef, container_of, is_run_id

T = TypeVar("T")

_BUSY_TIMEOUT_S = 30.0
_SETTLE_S = 10.0
_REINDEX = "rlx hosts reindex keeps it under another name, and builds a new one from your hosts"
_OF_THE_SYSTEM = (
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
)
_STAYS = "nothing was changed; ask whoever can write the runs' folder of that host"


class Index:
    """Opens the index in `home`, or builds it from the runs on this machine. Safe for several rlx at once."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.path = home / INDEX_FILE
        _make_folder(home)
        if self._guarded(tables.is_new):
            self._create()

    def runs(self) -> tuple[RunRef, ...]:
        """All runs that exist, the newest launch first, each launch in the order of its recipe."""
        return tuple(ref for ref in self.nodes() if not ref.node)

    def known_runs(self) -> tuple[RunRef, ...]:
        """All runs as in `runs`, without asking a host whether those of an interrupted launch have arrived."""
        return tuple(ref for ref in self._guarded(tables.read_runs) if not ref.node)

    def nodes(self) -> tuple[RunRef, ...]:
        """All runs as in `runs`, each with its workers behind it."""
        self._settle()
        return self._guarded(tables.read_runs)

    def workers(self, refs: Sequence[RunRef]) -> tuple[RunRef, ...]:
        """The parts of these runs on other nodes, as far as they are known here."""
        heads = {ref.run_id for ref in refs if not ref.node}
        known = self._guarded(tables.read_workers) if heads else ()
        return tuple(ref for ref in known if ref.head_id in heads)

    def rebuild(self, site: Site) -> tuple[Finding, ...]:
        """Add every run that lies below the root of a site, also those that another rlx launched.

        A run stays where it was launched: what a host shows of one that is known elsewhere, or is another, changes
        nothing and is what is found (RLX409). Raises HostError if the site does not answer.
        """
        found, shown = _find_runs(site, self.home)
        conflicts = self._guarded(lambda db: tables.meet(db, found, shown)) if found or shown else ()
        return tuple(Finding("RLX409", Severity.WARNING, _conflict(*conflict), _STAYS) for conflict in conflicts)

    def promise(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """Keep of these runs, before they are shipped: id, digest of the manifest, id of the container."""
        self._guarded(lambda db: tables.promise(db, rows))

    def digests(self, run_ids: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """The digests of the manifests that were sent from here for these runs, as far as any was."""
        return self._guarded(lambda db: promises.read_digests(db, run_ids))

    def tombstones(self) -> Mapping[str, Tombstone]:
        """Those of all runs that were removed, by run id."""
        return self._guarded(tombstones.read)

    def buried_on_hosts(self) -> frozenset[str]:
        """The ids of the removed runs whose hosts know of it."""
        return self._guarded(tombstones.on_hosts)

    def bury(self, removed: Sequence[Tombstone], *, on_host: bool) -> None:
        """Hide runs from names. `on_host`: their hosts know of it, too."""
        self._guarded(lambda db: tables.bury(db, removed, on_host=on_host))

    def restore(self, run_ids: Sequence[str]) -> None:
        """Let names mean these runs again."""
        self._guarded(lambda db: tables.restore(db, run_ids))

    def own_launches(self) -> frozenset[str]:
        """The ids of the launches that were typed on this machine."""
        return self._guarded(tables.own_launches)

    def add(self, ref: RunRef, position: int) -> None:
        """List a run that is there, `position` of its launch."""
        self._guarded(lambda db: tables.add(db, [(ref, position)]))

    def pending(self, digest: str) -> PendingLaunch | None:
        """The unresolved launch of exactly these plans."""
        return self._guarded(lambda db: tables.find_pending(db, digest))

    def interrupted(self, name: str) -> tuple[RunRef, ...]:
        """All runs of the newest launch of a recipe so called of which some may still arrive; none without one."""
        return tuple(ref for ref in self._guarded(lambda db: tables.read_interrupted(db, name)) if not ref.node)

    def begin(self, digest: str, launch_id: str, refs: Sequence[RunRef]) -> PendingLaunch:
        """Journal a launch before anything is shipped, or join the one that another rlx is at with the same plans."""
        return self._guarded(lambda db: tables.begin(db, digest, launch_id, refs))

    def resolve_launch(self, launch_id: str) -> None:
        """All runs have arrived: the same plans launched again are a new launch."""
        self._guarded(lambda db: tables.mark_resolved(db, launch_id))

    def forget(self, launch_id: str) -> None:
        """Remove the launch from the journal, because nothing of it reached its host."""
        self._guarded(lambda db: tables.forget(db, launch_id))

    def launch_runs(self, launch_id: str) -> tuple[RunRef, ...]:
        """All runs of a launch, also those of which nobody has heard whether they arrived."""
        return self._guarded(lambda db: tables.read_launch(db, launch_id))

    def asked(self, launch_id: str) -> str:
        """The digest of what was asked for with a launch from here; empty for any other."""
        return self._guarded(lambda db: tables.read_asked(db, launch_id))

    def moves(self, launch_id: str) -> tuple[Move, ...]:
        """Where blocks of a sweep were moved, oldest first."""
        return self._guarded(lambda db: moves.read(db, launch_id))

    def open_moves(self, run_ids: Sequence[str]) -> Mapping[str, Move]:
        """The moves of these runs that have come to no end, by run id."""
        return self._guarded(lambda db: moves.read_open(db, run_ids))

    def note_move(self, move: Move) -> None:
        """Journal how far a move has come."""
        self._guarded(lambda db: tables.note_move(db, move))

    def drop_move(self, move: Move) -> None:
        """Forget a move that did not happen."""
        self._guarded(lambda db: tables.drop_move(db, move))

    def send(self, move: Move, refs: Sequence[RunRef]) -> None:
        """Journal that the runs of a block are about to go where these references say."""
        self._guarded(lambda db: tables.send(db, move, refs))

    def sightings(self, run_ids: Sequence[str]) -> Mapping[str, Sighting]:
        """Read what was last seen of these runs, as far as anything was."""
        return self._guarded(lambda db: sightings.read(db, run_ids))

    def remember(self, seen: Sequence[Observation]) -> None:
        """Keep these observations of now for the time when the hosts do not answer."""
        if seen:
            self._guarded(lambda db: tables.note(db, seen, time.time()))

    def ended(self) -> frozenset[str]:
        """The ids of the runs on other machines that are known to have ended."""
        return self._guarded(sightings.ended)

    def _settle(self) -> None:
        """Look which runs of interrupted launches did arrive. Of a host that does not answer, nobody knows yet."""
        waiting = self._guarded(tables.read_waiting)
        if waiting:
            reports = request_reports(waiting, _SETTLE_S)
            there = {run_id for answer in reports.answers for run_id in answer}
            answered = [ref for ref in waiting if ref.run_id in there or ref.place not in reports.failures]
            self._guarded(lambda db: tables.settle(db, answered, there))

    def _create(self) -> None:
        """Tables and what is known to belong into them appear at once: nobody sees an index without its runs."""
        found, shown = _find_runs(local_site(), self.home)
        refs = [*((one.ref, one.position) for one in found), *adopted_refs(self.home)]
        removed = [*shown.values(), *adopted_tombstones(self.home)]
        self._guarded(lambda db: tables.create(db, refs, removed))

    def _guarded(self, work: Callable[[sqlite3.Connection], T]) -> T:
        # SQLite would wait for a pipe, or read a device without end. What cannot be looked at, it explains.
        with suppress(OSError):
            if not S_ISREG(self.path.stat().st_mode):
                raise RlxError(f"{self.path} is no file", _REINDEX)
        try:
            with closing(sqlite3.connect(self.path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)) as db:
                return work(db)
        except sqlite3.DatabaseError as error:
            # The other subclasses are mistakes of rlx.
            if type(error) not in (sqlite3.DatabaseError, sqlite3.OperationalError):
                raise
            raise self._refusal(error) from None
        except UnicodeDecodeError:
            # SQLite quotes what it cannot parse.
            raise self._refusal(sqlite3.DatabaseError("malformed database schema")) from None

    def _refusal(self, error: sqlite3.DatabaseError) -> RlxError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code == sqlite3.SQLITE_BUSY:
            return RlxError(f"{self.path}: {error}, for {_BUSY_TIMEOUT_S:.0f} s", f"fuser -v {self.path} shows by whom")
        if code in _OF_THE_SYSTEM:
            return RlxError(f"{self.path}: {error}", "check that the folder is writable and not full")
        return RlxError(f"{self.path} cannot be used: {error}", _REINDEX)


def _make_folder(home: Path) -> None:
    """Make it for its user alone: it gets copies of logs, which lie in private folders where they come from."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise RlxError(f"{home}: {error.strerror}", "set RLX_HOME to a folder you can write to") from None


def _find_runs(site: Site, home: Path) -> tuple[list[Found], dict[str, Tombstone]]:
    """Every run below the root of a site, and every one that was removed there, by id."""
    # One of another version of rlx is no reason to go without the others.
    said = shown_by(site, home)
    runs = [each for each in said if isinstance(each, ShownRun)]
    shown = {each.run_id: each for each in said if isinstance(each, Tombstone)}
    there = [Found(_ref_of(run, site), run.position, run.digest) for run in runs]
    gone = shown.keys() - {one.ref.run_id for one in there}
    removed = [shown[run_id] for run_id in gone]
    there += [Found(_ref_of_removed(each, site), each.position, each.manifest) for each in removed]
    return [one for one in there if is_run_id(one.ref)], shown


def _conflict(shown: RunRef, known: RunRef | None) -> str:
    if known is None:
        return f"{shown.host} shows {shown.run_id} as a part of a launch from here that has no such run; it is left out"
    if known.host == shown.host:
        return f"{shown.host} shows another run as {shown.run_id} than was launched; it is left out"
    return f"{shown.host} shows {shown.run_id}, which was launched on {known.host} and stays there"


def _ref_of(run: ShownRun, site: Site) -> RunRef:
    # The manifest may name any container. It has the site's if that is the one in which the inventory has runs.
    container = container_of(site) if run.container_id == site.container_id else ""
    return RunRef(*run[:5], site.place, site.root, run.created, run.node, container)


def _ref_of_removed(found: Tombstone, site: Site) -> RunRef:
    names = (found.run_id, found.launch_id, found.name, found.arm, found.seed)
    return RunRef(*names, site.place, site.root, found.created, found.node, container_of(site))
