"""The run directories of runs that rlx did not start: below `RLX_HOME/adopted`, laid out like any root of runs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from rlx.errors import RlxError
from rlx.plan import Expectations, LaunchPlan, Place, Site
from rlx.plan.run_dir import MANIFEST_FILE
from rlx.runs.index.run_index import Index
from rlx.runs.manifest import Manifest, read_manifest, render_manifest
from rlx.runs.run import RunRef, new_launch_id, new_ref

_NOTHING_PROMISED = Expectations(
    total_steps=None,
    validation_steps=(),
    last_step_validated=False,
    validation_items=None,
    validation_samples=1,
    metric="auto",
    noise=None,
    reports_probability_gap=False,
)


def unplanned(name: str, arm: str, seed: int, backend: str) -> LaunchPlan:
    """The plan of a run of which nothing is known but what people call it."""
    return LaunchPlan(
        name=name,
        arm=arm,
        control=None,
        seed=seed,
        backend=backend,
        backend_version="?",
        site=Site(),
        command=(),
        env={},
        secrets=(),
        files=(),
        expectations=_NOTHING_PROMISED,
        treatment=(),
        recipe={},
        device_kind="?",
        devices=1,
    )


def take_in(index: Index, plan: LaunchPlan, place: Place, fill: Callable[[Path], None]) -> RunRef:
    """A new run directory with what `fill` writes into it (its source and its logs), listed.

    `place` is where the logs are. If `fill` raises, nothing is left. Raises RlxError where it cannot be
    written.
    """
    root, now = _root(index.path.parent), time.time()
    # What rlx would have to ship, run and keep secret is nothing of this run's.
    site = Site(Place(place.host), container=place.inside, root=str(root))
    plan = replace(plan, site=site, command=(), env={}, secrets=(), files=(), findings=())
    together = [known for known in _manifests(index.path.parent) if _belongs_to(known, plan)]
    launch_id = together[0].launch_id if together else new_launch_id(now)
    ref, position = new_ref(plan, launch_id, now), len(together)
    try:
        _build(root / "runs", ref.run_id, render_manifest(ref, position, plan), fill)
    except OSError as problem:
        raise RlxError(f"{root}: {problem.strerror}", "check that the folder is writable and not full") from None
    index.add(ref, position)
    return ref


def _belongs_to(known: Manifest, plan: LaunchPlan) -> bool:
    """What people call by one name belongs side by side, as the arms of a launch do."""
    return (known.plan.name, known.plan.site.host) == (plan.name, plan.site.host)


def _build(runs: Path, run_id: str, manifest: str, fill: Callable[[Path], None]) -> None:
    """Aside first: a run directory that is there has its logs."""
    runs.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=runs, prefix=".incoming-") as scratch:
        folder = Path(scratch, "run")
        folder.mkdir()
        (folder / MANIFEST_FILE).write_text(manifest, encoding="utf-8")
        fill(folder)
        folder.replace(runs / run_id)


def run_dirs(home: Path, run_name: str = "") -> Iterator[Path]:
    """The directories of all of them, or of those of this run name."""
    pattern = f"{run_name}-[0-9]*" if run_name else "[!.]*"
    for run_dir in sorted((_root(home) / "runs").glob(pattern)):
        if (run_dir / "source.json").is_file():
            yield run_dir


def _root(home: Path) -> Path:
    return home / "adopted"


def _manifests(home: Path) -> list[Manifest]:
    """In the order in which they were taken in."""
    found = [manifest for run_dir in run_dirs(home) if (manifest := read_manifest(run_dir)) is not None]
    return sorted(found, key=lambda manifest: manifest.created_epoch)


def adopted_refs(home: Path) -> Iterator[tuple[RunRef, int]]:
    """The runs of this user with their positions, for an index that has lost them."""
    for manifest in _manifests(home):
        plan, created = manifest.plan, manifest.created_epoch
        place, root = plan.site.place, str(_root(home))
        ref = RunRef(manifest.run_id, manifest.launch_id, plan.name, plan.arm, plan.seed, place, root, created)
        yield ref, manifest.position
