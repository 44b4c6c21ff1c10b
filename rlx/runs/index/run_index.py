"""The index: which runs this user launched, and the journal of launches that have not been completed.

SQLite. Most of what it knows of runs can be read again from their hosts, but not all: digests of manifests, containers
and the journals of launches and moves exist nowhere else. A file that cannot be used is therefore an error, and only
`rlx hosts reindex` makes another one, beside the old one.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import astuple
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple, TypeVar

from rlx.errors import RlxError
from rlx.evidence.cache.file_digest import digest_of_files
from rlx.evidence.cache.kept_sections import SectionWriter, load_sections
from rlx.hosts import local_site
from rlx.local_files import locked_folder
from rlx.model import Finding, Severity, Site
from rlx.runs import manifest as manifests
from rlx.runs.importing.log_source import adopted_refs, tracked_hidden_runs
from rlx.runs.index import hidden_runs as hidden_runs
from rlx.runs.index import tables
from rlx.runs.index.hidden_runs import HiddenRun, hidden_run_text, parse_hidden_run
from rlx.runs.index.tables import CachedState, FoundRun, Move, PendingLaunch
from rlx.runs.judging.parser_cache import ParsedFiles
from rlx.runs.manifest import fetch_manifests, manifest_digest, parse_manifest
from rlx.runs.run import RunRef, container_of, group_of, is_run_id
from rlx.runs.status.host_report import request_reports
from rlx.runs.status.observation import Observation

T = TypeVar("T")

INDEX_FILE = "index.db"
_SQLITE_SUFFIXES = ("-journal", "-wal", "-shm")
"""Files that SQLite finds by the name of the index; without them it may be incomplete."""
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
_UNCHANGED = "nothing was changed; ask the user who can write the runs' folder of that host"


class Index:
    """Open the index in `home`, or build it from the runs on this machine. Several rlx may use it at once."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.path = home / INDEX_FILE
        try:
            # For its user alone: it gets copies of logs, which come from private folders.
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise RlxError(f"{home}: {error.strerror}", "set RLX_HOME to a folder you can write to") from None
        if self._read(tables.is_new):
            self._create()

    def _create(self) -> None:
        """Make the tables together with the known runs, so that no other rlx sees an index without them."""
        found, removed = _find_runs(local_site(), self.home)
        refs = [*((one.ref, one.position) for one in found), *adopted_refs(self.home)]
        self._read(lambda db: tables.create(db, refs, [*removed.values(), *tracked_hidden_runs(self.home)]))

    def rebuild(self, site: Site) -> tuple[Finding, ...]:
        """Add every run below the root of a site, also those that another rlx launched.

        A run stays where it was launched: a run that is known elsewhere, or differs from the known one, changes nothing
        and is reported (RLX409). Raises HostError if the site does not answer.
        """
        found, removed = _find_runs(site, self.home)
        conflicts = self._change(lambda db: tables.merge_found(db, found, removed)) if found or removed else ()
        return tuple(Finding("RLX409", Severity.WARNING, _conflict(*conflict), _UNCHANGED) for conflict in conflicts)

    # ---- runs --------------------------------------------------------------------------------------------------------

    def runs(self) -> tuple[RunRef, ...]:
        """Return all runs, the newest launch first, each launch in the order of its recipe."""
        return tuple(ref for ref in self.nodes() if not ref.node)

    def known_runs(self) -> tuple[RunRef, ...]:
        """Return all runs as in `runs`, without asking hosts whether those of an interrupted launch have arrived."""
        return tuple(ref for ref in self._read(tables.read_runs) if not ref.node)

    def nodes(self) -> tuple[RunRef, ...]:
        """Return all runs as in `runs`, each followed by its workers."""
        self._settle()
        return self._read(tables.read_runs)

    def _settle(self) -> None:
        """Ask hosts which runs of interrupted launches did arrive."""
        waiting = self._read(tables.read_waiting)
        if waiting:
            reports = request_reports(waiting, _SETTLE_S)
            existing = {run_id for answer in reports.answers for run_id in answer}
            answered = [ref for ref in waiting if ref.run_id in existing or ref.place not in reports.failures]
            self._change(lambda db: tables.settle(db, answered, existing))

    def workers(self, refs: Sequence[RunRef]) -> tuple[RunRef, ...]:
        """Return the parts of these runs on other nodes, as far as this index knows them."""
        heads = {ref.run_id for ref in refs if not ref.node}
        known = self._read(tables.read_workers) if heads else ()
        return tuple(ref for ref in known if ref.head_id in heads)

    def add(self, ref: RunRef, position: int) -> None:
        """Add an existing run, `position` of its launch."""
        self._change(lambda db: tables.insert_run(db, ref, position, arrived=True))

    def hidden_runs(self) -> Mapping[str, HiddenRun]:
        """Return those of all removed runs by run id."""
        return self._read(hidden_runs.read)

    def buried_on_hosts(self) -> frozenset[str]:
        """Return the ids of the removed runs that have such a record on their hosts, too."""
        return self._read(hidden_runs.on_hosts)

    def bury(self, removed: Sequence[HiddenRun], *, on_host: bool) -> None:
        """Hide runs from names. `on_host`: their hosts have those records, too."""
        self._change(lambda db: hidden_runs.note(db, removed, on_host=on_host))

    def restore(self, run_ids: Sequence[str]) -> None:
        """Make names refer to these runs again."""
        self._change(lambda db: hidden_runs.forget(db, run_ids))

    # ---- launches and moves ------------------------------------------------------------------------------------------

    def own_launches(self) -> frozenset[str]:
        """Return the ids of the launches from this machine."""
        return self._read(tables.own_launches)

    def pending(self, digest: str) -> PendingLaunch | None:
        """Return the unresolved launch of exactly these plans."""
        return self._read(lambda db: tables.find_pending(db, digest))

    def interrupted(self, name: str) -> tuple[RunRef, ...]:
        """Return the runs of the newest launch of a recipe of this name of which some may still arrive."""
        return tuple(ref for ref in self._read(lambda db: tables.read_interrupted(db, name)) if not ref.node)

    def begin(self, digest: str, launch_id: str, refs: Sequence[RunRef]) -> PendingLaunch:
        """Journal a launch before anything is shipped, or join the one of the same plans that another rlx has begun."""
        return self._change(lambda db: tables.begin(db, digest, launch_id, refs))

    def resolve_launch(self, launch_id: str) -> None:
        """Note that all runs have arrived: the same plans launched again are a new launch."""
        self._change(lambda db: tables.mark_resolved(db, launch_id))

    def forget(self, launch_id: str) -> None:
        """Remove a launch of which nothing reached its host."""
        self._change(lambda db: tables.forget(db, launch_id))

    def launch_runs(self, launch_id: str) -> tuple[RunRef, ...]:
        """Return all runs of a launch, also those that may not have arrived."""
        return self._read(lambda db: tables.read_launch(db, launch_id))

    def request_digest(self, launch_id: str) -> str:
        """Return the digest of what was launched; empty for a launch from elsewhere."""
        return self._read(lambda db: tables.read_request(db, launch_id))

    def keep_manifests(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """Keep of these runs, before they are shipped: id, digest of the manifest, id of the container."""
        self._change(lambda db: tables.keep_manifests(db, rows))

    def digests(self, run_ids: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """Return the digests of the manifests that were sent from here for these runs, as far as any was."""
        return self._read(lambda db: tables.read_digests(db, run_ids))

    def moves(self, launch_id: str) -> tuple[Move, ...]:
        """Return the moves of blocks of a sweep, oldest first."""
        return self._read(lambda db: tables.read_moves(db, launch_id))

    def open_moves(self, run_ids: Sequence[str]) -> Mapping[str, Move]:
        """Return the moves of these runs that are not done, by run id."""
        return self._read(lambda db: tables.read_open_moves(db, run_ids))

    def note_move(self, move: Move) -> None:
        """Journal how far a move has come."""
        self._change(lambda db: tables.write_move(db, move))

    def drop_move(self, move: Move) -> None:
        """Forget a move that did not happen."""
        self._change(lambda db: tables.drop_move(db, move))

    def relocate(self, move: Move, refs: Sequence[RunRef]) -> None:
        """Journal that the runs of a block are sent where these references say."""
        self._change(lambda db: tables.relocate(db, move, refs))

    # ---- cached states -----------------------------------------------------------------------------------------------

    def cached_states(self, run_ids: Sequence[str]) -> Mapping[str, CachedState]:
        """Return what was last known of these runs."""
        return self._read(lambda db: tables.read_cached_states(db, run_ids))

    def cache_states(self, observations: Sequence[Observation]) -> None:
        """Keep these observations of now for the time when the hosts do not answer."""
        if observations:
            self._change(lambda db: tables.cache_states(db, observations, time.time()))

    def ended(self) -> frozenset[str]:
        """Return the ids of the runs on other machines that are known to have ended."""
        return self._read(tables.read_ended)

    # ---- the file ----------------------------------------------------------------------------------------------------

    def _change(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def in_transaction(db: sqlite3.Connection) -> T:
            with tables.transaction(db):
                return work(db)

        return self._read(in_transaction)

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        # SQLite would wait for a pipe, or read a device without end. It reports itself what cannot be opened.
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
            hint = f"fuser -v {self.path} shows which process uses it"
            return RlxError(f"{self.path}: {error}, for {_BUSY_TIMEOUT_S:.0f} s", hint)
        if code in _OF_THE_SYSTEM:
            return RlxError(f"{self.path}: {error}", "check that the folder is writable and not full")
        return RlxError(f"{self.path} cannot be used: {error}", _REINDEX)


# ---- what a host reports: manifests, and records of hidden runs ------------------------------------------------------


class ReportedRun(NamedTuple):
    """A run by its manifest, whose digest is `digest`. `container_id`: of the container that the manifest names."""

    run_id: str
    launch_id: str
    name: str
    arm: str
    seed: int
    created: float
    node: int
    container_id: str | None
    position: int
    digest: str
    group: str = ""


HostRecord = ReportedRun | HiddenRun | None
"""What one file of a host says; None: nothing that this rlx can read."""


def _find_runs(site: Site, home: Path) -> tuple[list[FoundRun], dict[str, HiddenRun]]:
    """Return every run below the root of a site, and by id those records there."""
    reports = _read_records(site, home)
    removed = {each.run_id: each for each in reports if isinstance(each, HiddenRun)}
    found = []
    for run in reports:
        if isinstance(run, ReportedRun):
            # The manifest may name any container. It has the site's if that is the one in which the inventory has runs.
            container = container_of(site) if run.container_id == site.container_id else ""
            ref = RunRef(*run[:5], site.place, site.root, run.created, run.node, container, run.group)
            found.append(FoundRun(ref, run.position, run.digest))
    for run_id in removed.keys() - {one.ref.run_id for one in found}:
        gone = removed[run_id]
        names = (gone.run_id, gone.launch_id, gone.name, gone.arm, gone.seed)
        ref = RunRef(*names, site.place, site.root, gone.created, gone.node, container_of(site))
        found.append(FoundRun(ref, gone.position, gone.manifest))
    return [one for one in found if is_run_id(one.ref)], removed


def _read_records(site: Site, home: Path) -> list[HostRecord]:
    """Read the manifests and hidden runs of a site. Raises HostError if the site does not answer.

    What a file said is cached in `home` by its digest as long as the host has it, so that of many old runs only the
    digests are compared, by the host.
    """
    store = ParsedFiles(home)
    # Runs of one root can be read from the host or in a container, and by several names.
    name = hashlib.sha256(repr(("shown", astuple(site.place), site.root)).encode()).hexdigest()[:32]
    # Another version of rlx would read them differently; empty where it has just been written.
    rules = digest_of_files(str(module.__file__) for module in (manifests, hidden_runs))
    known: Mapping[str, HostRecord] = {}
    cached = load_sections(store, name)
    if cached is not None and rules and cached.document.get("of") == rules:
        known = {digest: _from_plain(plain) for digest, plain in cached.document["shown"].items()}
    same, texts = fetch_manifests(site.place, site.root, known)
    reports = {digest: known[digest] for digest in same if digest in known}
    reports |= {hashlib.sha256(text.encode()).hexdigest(): _parse_record(text) for text in texts}
    if rules and reports != known:
        plain = {digest: hidden_run_text(one) if isinstance(one, HiddenRun) else one for digest, one in reports.items()}
        SectionWriter().save(store, name, {"of": rules, "shown": plain})
    return list(reports.values())


def _from_plain(plain: str | list[object] | None) -> HostRecord:
    return parse_hidden_run(plain) if isinstance(plain, str) else ReportedRun(*plain) if plain else None  # type: ignore[arg-type]


def _parse_record(text: str) -> HostRecord:
    manifest = parse_manifest(text)
    if manifest is None:
        return parse_hidden_run(text)
    plan, container_id = manifest.plan, manifest.plan.site.container_id
    names = (manifest.run_id, manifest.launch_id, plan.name, plan.arm, plan.seed)
    digest = manifest_digest(text)
    more = plan.node, container_id, manifest.position, digest, group_of(plan)
    return ReportedRun(*names, manifest.created_epoch, *more)


def _conflict(reported: RunRef, known: RunRef | None) -> str:
    host, run_id = reported.host, reported.run_id
    if known is None:
        return f"{host} shows {run_id} as a part of a launch from here that has no such run; it is left out"
    if known.host == host:
        return f"{host} shows another run as {run_id} than was launched; it is left out"
    return f"{host} shows {run_id}, which was launched on {known.host} and stays there"


# ---- an index that cannot be used ------------------------------------------------------------------------------------


def set_aside(home: Path) -> Path | None:
    """Rename the index in `home`, whatever it is, and return its new path; None where there was none.

    Nothing else has all that is in it. Raises RlxError where it cannot be renamed.
    """
    index = home / INDEX_FILE
    try:
        if not os.path.lexists(index):
            return None
        with locked_folder(home):
            name = f"{index.name}.{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
            names = (index.with_name(f"{name}-{number}" if number > 1 else name) for number in count(1))
            kept = next(path for path in names if not os.path.lexists(path))
            index.rename(kept)
            for suffix in _SQLITE_SUFFIXES:
                with suppress(FileNotFoundError):
                    index.with_name(index.name + suffix).rename(kept.with_name(kept.name + suffix))
            return kept
    except OSError as error:
        raise RlxError(f"{index} cannot be renamed: {error.strerror}", "check that its folder is writable") from None


def runs_in(copy: Path) -> Mapping[str, str]:
    """Return the hosts of the runs that this file names, by run id, as far as they can be read; nothing is written."""
    found: dict[str, str] = {}
    if copy.is_file():
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"{copy.absolute().as_uri()}?mode=ro", uri=True)) as db:
            for run_id, host in db.execute("SELECT run_id, host FROM runs"):
                found[str(run_id)] = str(host)
    return found
