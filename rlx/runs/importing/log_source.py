"""Find the logs and the run directories of runs that rlx did not start."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlx.errors import RlxError, UsageError
from rlx.local_files import read_bytes
from rlx.model import Place, from_jsonable, to_jsonable
from rlx.model.run_dir import TOMBSTONES_DIR
from rlx.runs.index.hidden_runs import HiddenRun, parse_hidden_run
from rlx.runs.manifest import Manifest, read_manifest
from rlx.runs.run import RunRef

SOURCE_FILE = "source.json"
_MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class LogSource:
    """The origin of logs. `digests`: the SHA-256 of each imported log; none for a tracked one.

    A tracked log is one path; of imported ones, each is an attempt of the run, in this order.
    """

    place: Place
    paths: tuple[str, ...]
    digests: tuple[str, ...] = ()

    @property
    def followed(self) -> bool:
        return not self.digests

    def __str__(self) -> str:
        inside = f":{self.place.inside}" if self.place.inside else ""
        return f"{self.place.host}{inside}:{', '.join(self.paths)}"


def is_adopted(ref: RunRef) -> bool:
    """Tell whether it was tracked or imported: rlx did not start it, and knows none of its processes."""
    return ref.place.is_local and (ref.run_dir / SOURCE_FILE).is_file()


def source_of(run_dir: Path) -> LogSource | None:
    """Read the source; None for a run that rlx started. Raises RlxError if it is damaged."""
    return read_source(run_dir) if (run_dir / SOURCE_FILE).is_file() else None


def read_source(run_dir: Path) -> LogSource:
    """Read the source. Raises RlxError if it is damaged."""
    try:
        return from_jsonable(LogSource, json.loads((run_dir / SOURCE_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, UsageError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise RlxError(f"{run_dir / SOURCE_FILE}: {reason}", "import the log again, under another name") from None


def write_source(run_dir: Path, source: LogSource) -> None:
    write_value(run_dir / SOURCE_FILE, source)


def write_value(path: Path, value: Any) -> None:
    """Write a dataclass as JSON, atomically."""
    aside = path.with_name(f".{path.name}-{os.getpid()}")
    aside.write_text(json.dumps(to_jsonable(value)) + "\n", encoding="utf-8")
    aside.replace(path)


def run_dirs(home: Path, run_name: str = "") -> Iterator[Path]:
    """List the run directories of tracked and imported runs, or of those of this run name."""
    pattern = f"{run_name}-[0-9]*" if run_name else "[!.]*"
    for run_dir in sorted((adopted_root(home) / "runs").glob(pattern)):
        if (run_dir / "source.json").is_file():
            yield run_dir


def adopted_root(home: Path) -> Path:
    """Return the root of tracked and imported runs, laid out like any root of runs."""
    return home / "adopted"


def adopted_manifests(home: Path) -> list[Manifest]:
    """Read the manifests of all of them, in the order in which they were added."""
    found = [manifest for run_dir in run_dirs(home) if (manifest := read_manifest(run_dir)) is not None]
    return sorted(found, key=lambda manifest: manifest.created_epoch)


def adopted_refs(home: Path) -> Iterator[tuple[RunRef, int]]:
    """Return the runs of this user with their positions, for a new index."""
    for manifest in adopted_manifests(home):
        plan, created = manifest.plan, manifest.created_epoch
        place, root = plan.site.place, str(adopted_root(home))
        ref = RunRef(manifest.run_id, manifest.launch_id, plan.name, plan.arm, plan.seed, place, root, created)
        yield ref, manifest.position
    for gone in tracked_hidden_runs(home):
        if gone.deleted:
            names = (gone.run_id, gone.launch_id, gone.name, gone.arm, gone.seed)
            yield RunRef(*names, Place(gone.host), str(adopted_root(home)), gone.created), gone.position


def tracked_hidden_runs(home: Path) -> Iterator[HiddenRun]:
    """Read the records of hidden tracked and imported runs of this user."""
    for path in sorted((adopted_root(home) / "runs" / TOMBSTONES_DIR).glob("*.json")):
        with suppress(OSError):
            if (found := parse_hidden_run(read_bytes(path, _MOST_BYTES).decode(errors="replace"))) is not None:
                yield found
