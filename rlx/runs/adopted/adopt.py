"""Takes in a run that somebody started by hand: a run directory of its own on this machine, fed by its log."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rlx.errors import RlxError, UsageError
from rlx.plan import Expectations, LaunchPlan, Place, Site
from rlx.runs.adopted.foreign_log import ask_log
from rlx.runs.adopted.log_copy import Source, adopted_root, read_copy, read_source, refresh, write_source
from rlx.runs.index import Index
from rlx.runs.manifest import read_manifest, render_manifest
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


def adopt(index: Index, place: Place, path: str, plan: LaunchPlan, *, planned: bool) -> RunRef:
    """Copy the log for the first time and list the run; the log itself is only read.

    `planned`: the plan is a recipe's, and the log is held against it. Raises RlxError if the log cannot be read,
    HostError if the place cannot be asked, UsageError if the log is adopted already.
    """
    source = Source(place, path, planned)
    _refuse_twice(index, source)
    root, now = adopted_root(index.path.parent), time.time()
    own_place = Place(place.host)
    # What rlx would have to ship, run and keep secret is nothing of this run's.
    site = Site(own_place, container=place.inside, root=str(root))
    plan = replace(plan, site=site, command=(), env={}, secrets=(), files=(), findings=())
    ref = new_ref(plan, new_launch_id(now), now)
    try:
        _build(root, ref, plan, source)
    except OSError as problem:
        raise RlxError(f"{root}: {problem.strerror}", "check that the folder is writable and not full") from None
    index.add(ref)
    return ref


def _build(root: Path, ref: RunRef, plan: LaunchPlan, source: Source) -> None:
    """Aside first: a run directory that is there has a log."""
    runs = root / "runs"
    runs.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=runs, prefix=".incoming-") as scratch:
        folder = Path(scratch, "run")
        folder.mkdir()
        write_source(folder, source)
        (folder / "manifest.json").write_text(render_manifest(ref, 0, plan), encoding="utf-8")
        copy, problem = refresh(folder)
        if problem is not None:
            raise problem
        if copy.gone:
            raise RlxError(f"{source}: there is no such file", "name the console log that the run writes")
        folder.replace(runs / ref.run_id)


def _refuse_twice(index: Index, source: Source) -> None:
    for run_dir in _run_dirs(index.path.parent):
        known = read_source(run_dir)
        if (known.place, known.path) == (source.place, source.path) and _is_same_log(run_dir, source):
            raise UsageError(f"{source} is adopted already, as {run_dir.name}", f"rlx status {run_dir.name}")


def _is_same_log(run_dir: Path, source: Source) -> bool:
    """The file of an earlier, ended run may belong to the next one by now."""
    copy = read_copy(run_dir)
    if copy.is_written or copy.left:
        return True
    answer = ask_log(source.place, source.path, copy.extent)
    return answer is not None and answer.start == copy.extent.bytes


def adopted_refs(home: Path) -> Iterator[RunRef]:
    """The adopted runs of this user, for an index that has lost them."""
    for run_dir in _run_dirs(home):
        if (manifest := read_manifest(run_dir)) is not None:
            plan, place = manifest.plan, manifest.plan.site.place
            root, created = str(adopted_root(home)), manifest.created_epoch
            yield RunRef(manifest.run_id, manifest.launch_id, plan.name, plan.arm, plan.seed, place, root, created)


def _run_dirs(home: Path) -> Iterator[Path]:
    for run_dir in sorted((adopted_root(home) / "runs").glob("[!.]*")):
        if (run_dir / "source.json").is_file():
            yield run_dir
