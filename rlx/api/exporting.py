"""Write runs, each with its verdict, in the form of a tracker that people look at curves with."""

from __future__ import annotations

import importlib.util
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.api.telling import unheard
from rlx.errors import RlxError, UsageError
from rlx.secret_text import mask, masked
from rlx.trackers import ExportedRun, MetricPoint, Tracker, tracker_of

if TYPE_CHECKING:
    from rlx.api.metrics import RunMetrics
    from rlx.api.selection import Runs
    from rlx.api.telling import Tell
    from rlx.evidence import JudgedRun

_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Export:
    """`next`: the command that shows them."""

    tracker: str
    folder: Path
    runs: tuple[ExportedRun, ...]
    next: str


def export(
    runs: Runs | None = None,
    *,
    to: str,
    folder: str | Path | None = None,
    project: str | None = None,
    tell: Tell = unheard,
) -> Export:
    """Write these runs, or those of the latest launch, into a new folder for tensorboard, wandb, swanlab, mlflow or
    trackio.

    Every run carries its verdict, arm, seed, experiment and launch, and the verdict in its name where it is not valid.
    Nothing is sent anywhere, and no login is looked for. `folder`: by default `<tracker>-<time>` here. `project`: by
    default the experiment of each run. Raises UsageError for an unknown tracker, RlxError where its package is not
    installed or fails, no metric was logged, or the folder is there already, NoSuchRun for unknown names.
    """
    from rlx.api.metrics import metrics

    tracker = tracker_of(to)
    _check_packages(to, tracker)
    if project is not None and not _PROJECT.fullmatch(project):
        raise UsageError(
            f"--project {project}: some trackers make a file name of it",
            "letters, digits, '.', '_' and '-', at most 64 of them",
        )
    place = Path(folder or f"{to}-{time.strftime('%Y%m%d-%H%M%S')}")
    _check_folder(place)
    exported = tuple(_exported(metrics(runs, tell=tell), project))
    _write(to, tracker, exported, place)
    return Export(to, place, exported, tracker.next_command(exported, place))


def _check_packages(name: str, tracker: Tracker) -> None:
    from rlx.installed import install_command
    from rlx.trackers import TRACKERS

    missing = [package for package in tracker.PACKAGES if not _is_installed(package)]
    if missing:
        fix = install_command(name) if name in TRACKERS else f"pip install {' '.join(missing)}"
        raise RlxError(f"--to {name} takes {' and '.join(missing)}, which is not installed", fix)


def _is_installed(package: str) -> bool:
    """A folder of that name, such as trackers make, is no package."""
    found = importlib.util.find_spec(package)
    return found is not None and found.origin is not None


def _check_folder(folder: Path) -> None:
    if not folder.parent.is_dir():
        raise RlxError(f"{folder.parent}: there is no such folder", f"mkdir -p {folder.parent}")
    if folder.exists() or folder.is_symlink():
        raise RlxError(f"{folder} is there already", "name another one, or remove it first")


def _write(name: str, tracker: Tracker, runs: Sequence[ExportedRun], folder: Path) -> None:
    """Write all of them, or leave nothing behind."""
    from rlx.trackers.subprocess_writer import write_apart

    try:
        folder.mkdir()
    except OSError as error:
        raise RlxError(f"{folder} cannot be made: {error.strerror}") from None
    try:
        if tracker.PACKAGES:
            write_apart(name, runs, folder)
        else:
            tracker.write(runs, folder)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise RlxError(f"{folder} cannot be written: {error.strerror}", "is the disk full?") from None
        raise


def _exported(found: Sequence[RunMetrics], project: str | None) -> Iterator[ExportedRun]:
    shared = Counter((each.ref.name, each.ref.short_name) for each in found)
    for each in found:
        ref, verdict = each.ref, each.judged.verdict
        # Two runs of one name would be one run in a tracker.
        name = ref.short_name if shared[ref.name, ref.short_name] == 1 else ref.run_id
        doubt = _doubt(each.judged)
        yield ExportedRun(
            name=f"{name} [{doubt}]" if doubt else name,
            project=project or ref.name,
            tags=_tags(each),
            config=masked(each.judged.plan.recipe),
            notes=mask(verdict.sentence),
            points=tuple(_points(each)),
        )


def _doubt(run: JudgedRun) -> str:
    """`invalid RLX601`; "" for a valid run."""
    verdict = run.verdict
    if verdict.word == "valid":
        return ""
    return " ".join((verdict.word, *(finding.id for finding in verdict.findings[:1])))


def _tags(each: RunMetrics) -> dict[str, str]:
    from rlx.api.derived_files import made_by

    ref, judged = each.ref, each.judged
    return {
        "verdict": judged.verdict.word,
        "reason": ",".join(dict.fromkeys(finding.id for finding in judged.verdict.findings)) or "none",
        "arm": ref.arm,
        "seed": str(ref.seed),
        "experiment": ref.name,
        "launch": ref.launch_id,
        "run": ref.run_id,
        "state": judged.state.value,
        "trainer": f"{judged.plan.backend} {judged.plan.backend_version}".strip() or "unknown",
        "written": made_by(),
    }


def _points(each: RunMetrics) -> Iterator[MetricPoint]:
    """Each step with its values and its time: the launch, and what the steps up to it took by the log."""
    from rlx.evidence.step_times import step_times

    by_step: dict[int, dict[str, float]] = {}
    for name, values in each.series.items():
        for step, value in values.items():
            by_step.setdefault(step, {})[name] = value
    moment, seconds = each.ref.created, step_times(each.judged.evidence)
    for step in sorted(by_step):
        moment += seconds.get(step, 0.0)
        yield MetricPoint(step, moment, by_step[step])
