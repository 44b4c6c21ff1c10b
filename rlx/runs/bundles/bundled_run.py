"""Keep what a bundle states about its runs that their files do not show: the state of one that recorded no end.

No process is looked up for a run of an unpacked bundle, and no host is queried. The statements are kept in rlx's home:
in a run directory, a container could write them for a run of the user's own.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rlx.errors import UsageError
from rlx.local_files import parse_json, read_bytes
from rlx.model import LOCAL, RunState, from_jsonable, to_jsonable
from rlx.model.run_dir import ATTEMPTS_DIR, LATEST_LINK, MANIFEST_FILE
from rlx.model.verdict_rules import RULES
from rlx.runs.bundles.bundle_file import RUNS
from rlx.runs.copies.mirror import Copies, RunFiles
from rlx.runs.index import tables
from rlx.runs.index.hidden_runs import HiddenRun
from rlx.runs.index.run_index import Index
from rlx.runs.manifest import manifest_digest, manifest_text
from rlx.runs.run import RunPaths, RunRef
from rlx.runs.status.observation import Observation

_FOLDER = "bundled"
_RULES = "rules"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class BundledRun:
    """A run as a bundle lists it. `position`: in its launch; `created`: an epoch.

    `state`: its last state, "" if never seen; `missing`: which evidence could not be read. `manifest`: sha256 of its
    manifest, "" if the bundle has none. `as_of`: the epoch of the last answer of a host that could not be queried for
    the rest; None if nothing was left to query. `removed`: who hid it, and when.
    """

    run_id: str
    launch_id: str
    name: str
    arm: str
    seed: int
    node: int
    position: int
    created: float
    state: str
    missing: str
    manifest: str
    as_of: float | None = None
    removed: HiddenRun | None = None


def _note_runs(home: Path, runs: Sequence[BundledRun], rules: int) -> None:
    """Note in a home that these runs belong to a bundle, and the version of the rules by which they are judged.

    Raises OSError.
    """
    (home / _FOLDER).mkdir(parents=True)
    (home / _FOLDER / _RULES).write_text(str(rules), encoding="utf-8")
    for run in runs:
        (home / _FOLDER / f"{run.run_id}.json").write_text(json.dumps(to_jsonable(run)), encoding="utf-8")


def noted_rules(home: Path) -> int:
    """Return the version of the rules for the runs in a home: the current one, unless a bundle names another."""
    try:
        return int(read_bytes(home / _FOLDER / _RULES, _MOST_BYTES))
    except (OSError, ValueError):
        return RULES


def noted_runs(home: Path, refs: Sequence[RunRef]) -> dict[str, BundledRun]:
    """Return what the bundle states of these runs, by id, of those that belong to one."""
    if not (home / _FOLDER).is_dir():
        return {}
    return {ref.run_id: run for ref in refs if (run := _read(home / _FOLDER / f"{ref.run_id}.json")) is not None}


def _read(path: Path) -> BundledRun | None:
    try:
        return from_jsonable(BundledRun, parse_json(read_bytes(path, _MOST_BYTES)))
    except (OSError, ValueError, UsageError):
        return None


def copies_of(runs: Mapping[str, BundledRun], refs: Sequence[RunRef]) -> Copies:
    """Return the files of bundled runs, and what was missing of them."""
    known = ((ref, runs[ref.run_id]) for ref in refs if ref.run_id in runs)
    return {ref.run_id: RunFiles(ref.run_dir, as_of=run.as_of, lacks=run.missing) for ref, run in known}


def observe_bundled(runs: Mapping[str, BundledRun], copies: Copies) -> dict[str, Observation]:
    """Return the end of each run by its record, or its state as the bundle states it."""
    seen = {}
    for run_id, run in runs.items():
        state = RunState(run.state) if run.state in [*RunState] else RunState.UNREACHABLE
        seen[run_id] = Observation(run_id, copies[run_id].end or state, exit_code=copies[run_id].exit_code)
    return seen


def open_bundle(folder: Path, runs: Sequence[BundledRun], rules: int) -> Index:
    """Open an index of only these runs, whose files are in `folder`, to be judged by the rules of that version.

    Raises OSError.
    """
    _note_runs(folder, runs, rules)
    for run_dir in (folder / RUNS).glob("*"):
        latest = RunPaths(run_dir).latest.name
        (run_dir / LATEST_LINK).symlink_to(f"{ATTEMPTS_DIR}/{latest}")
    with closing(sqlite3.connect(folder / "index.db", isolation_level=None)) as db:
        removed = [run.removed for run in runs if run.removed]
        refs = []
        for run in runs:
            names = (run.run_id, run.launch_id, run.name, run.arm, run.seed)
            refs.append((RunRef(*names, LOCAL, str(folder), run.created, run.node), run.position))
        tables.create(db, refs, removed)
    return Index(folder)


def manifest_sha256(folder: Path, run_id: str) -> str:
    """Return the digest of the manifest of a run; empty where there is none."""
    run_dir = folder / RUNS / run_id
    return manifest_digest(manifest_text(run_dir)) if (run_dir / MANIFEST_FILE).is_file() else ""


def file_sha256(path: Path) -> str:
    """Return the digest of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
