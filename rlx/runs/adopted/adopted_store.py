"""Take in runs that rlx did not start: a plan that promises nothing, a run directory, and its place in the index."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rlx.errors import RlxError
from rlx.model import Expectations, LaunchPlan, Place, Site
from rlx.model.run_dir import MANIFEST_FILE
from rlx.runs.adopted.adopted_dirs import adopted_manifests, adopted_root
from rlx.runs.index.run_index import Index
from rlx.runs.manifest import Manifest, render_manifest
from rlx.runs.run import RunRef, new_launch_id, new_ref

NOTHING_PROMISED = Expectations(
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
        expectations=NOTHING_PROMISED,
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
    root, now = adopted_root(index.path.parent), time.time()
    # What rlx would have to ship, run and keep secret is nothing of this run's.
    site = Site(Place(place.host), container=place.inside, root=str(root))
    plan = replace(plan, site=site, command=(), env={}, secrets=(), files=(), findings=())
    together = [known for known in adopted_manifests(index.path.parent) if _belongs_to(known, plan)]
    launch_id = together[0].launch_id if together else new_launch_id(now)
    ref, position = new_ref(plan, launch_id, now), len(together)
    try:
        _build(root / "runs", ref.run_id, render_manifest(ref, position, plan), fill)
    except OSError as problem:
        raise RlxError(f"{root}: {problem.strerror}", "check that the folder is writable and not full") from None
    index.add(ref, position)
    return ref


def _belongs_to(known: Manifest, plan: LaunchPlan) -> bool:
    """Put side by side what people call by one name, as the arms of a launch are."""
    return (known.plan.name, known.plan.site.host) == (plan.name, plan.site.host)


def _build(runs: Path, run_id: str, manifest: str, fill: Callable[[Path], None]) -> None:
    """Build it aside first: a run directory that is there has its logs."""
    runs.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=runs, prefix=".incoming-") as scratch:
        folder = Path(scratch, "run")
        folder.mkdir()
        (folder / MANIFEST_FILE).write_text(manifest, encoding="utf-8")
        fill(folder)
        folder.replace(runs / run_id)
