"""Find the run directories of runs that rlx did not start, which lie below `RLX_HOME/adopted`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rlx.local_files import read_bytes
from rlx.model import Place
from rlx.model.run_dir import TOMBSTONES_DIR
from rlx.runs.index.tombstones import Tombstone, parse_tombstone
from rlx.runs.manifest import Manifest, read_manifest
from rlx.runs.run import RunRef

_MOST_BYTES = 1 << 16


def run_dirs(home: Path, run_name: str = "") -> Iterator[Path]:
    """The directories of all of them, or of those of this run name."""
    pattern = f"{run_name}-[0-9]*" if run_name else "[!.]*"
    for run_dir in sorted((adopted_root(home) / "runs").glob(pattern)):
        if (run_dir / "source.json").is_file():
            yield run_dir


def adopted_root(home: Path) -> Path:
    """The root of them, laid out like any root of runs."""
    return home / "adopted"


def adopted_manifests(home: Path) -> list[Manifest]:
    """The manifests of all of them, in the order in which they were taken in."""
    found = [manifest for run_dir in run_dirs(home) if (manifest := read_manifest(run_dir)) is not None]
    return sorted(found, key=lambda manifest: manifest.created_epoch)


def adopted_refs(home: Path) -> Iterator[tuple[RunRef, int]]:
    """The runs of this user with their positions, for an index that has lost them."""
    for manifest in adopted_manifests(home):
        plan, created = manifest.plan, manifest.created_epoch
        place, root = plan.site.place, str(adopted_root(home))
        ref = RunRef(manifest.run_id, manifest.launch_id, plan.name, plan.arm, plan.seed, place, root, created)
        yield ref, manifest.position
    for gone in adopted_tombstones(home):
        if gone.deleted:
            names = (gone.run_id, gone.launch_id, gone.name, gone.arm, gone.seed)
            yield RunRef(*names, Place(gone.host), str(adopted_root(home)), gone.created), gone.position


def adopted_tombstones(home: Path) -> Iterator[Tombstone]:
    """Those of the runs of this user that were taken in and removed."""
    for path in sorted((adopted_root(home) / "runs" / TOMBSTONES_DIR).glob("*.json")):
        with suppress(OSError):
            if (found := parse_tombstone(read_bytes(path, _MOST_BYTES).decode(errors="replace"))) is not None:
                yield found
