"""Make a folder of unpacked runs a home of rlx, in which they are all there is: whatever rlx can say of runs, it can
say of these."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from rlx.model import LOCAL
from rlx.model.run_dir import ATTEMPTS_DIR, LATEST_LINK, MANIFEST_FILE
from rlx.runs.bundles.bundle_layout import RUNS
from rlx.runs.bundles.bundled_run import BundledRun, state_them
from rlx.runs.index import tables
from rlx.runs.index.promises import manifest_digest
from rlx.runs.index.run_index import Index
from rlx.runs.manifest import manifest_text
from rlx.runs.run import RunPaths, RunRef


def as_home(folder: Path, runs: Sequence[BundledRun], rules: int) -> Index:
    """Open the index of these runs alone, whose files lie in `folder`, to be judged by the rules of that version.

    Raises OSError.
    """
    state_them(folder, runs, rules)
    for run_dir in (folder / RUNS).glob("*"):
        latest = RunPaths(run_dir).latest.name
        (run_dir / LATEST_LINK).symlink_to(f"{ATTEMPTS_DIR}/{latest}")
    with closing(sqlite3.connect(folder / "index.db", isolation_level=None)) as db:
        removed = [run.removed for run in runs if run.removed]
        tables.create(db, [(_ref(run, folder), run.position) for run in runs], removed)
    return Index(folder)


def _ref(run: BundledRun, folder: Path) -> RunRef:
    names = (run.run_id, run.launch_id, run.name, run.arm, run.seed)
    return RunRef(*names, LOCAL, str(folder), run.created, run.node)


def manifest_sha256(folder: Path, run_id: str) -> str:
    """The digest of the manifest of a run; "" where there is none."""
    run_dir = folder / RUNS / run_id
    return manifest_digest(manifest_text(run_dir)) if (run_dir / MANIFEST_FILE).is_file() else ""


def file_sha256(path: Path) -> str:
    """The digest of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
