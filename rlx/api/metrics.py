"""Read the metrics that runs have logged, by step, with their verdicts."""

from __future__ import annotations

import importlib.util
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.api.runs import unheard
from rlx.errors import RlxError, UsageError
from rlx.secret_text import mask, masked
from rlx.trackers import ExportedRun, MetricPoint, Tracker, tracker_of

if TYPE_CHECKING:
    from rlx.api.runs import Runs, Tell
    from rlx.evidence import JudgedRun
    from rlx.runs import RunRef

_PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """The chosen metrics of one run: name -> step -> value, steps ascending; NaN where the run logged NaN."""

    ref: RunRef
    judged: JudgedRun
    series: Mapping[str, Mapping[int, float]]

    @property
    def exclusion(self) -> str:
        """The word that excludes its numbers by the run's own evidence so far; "" where they may stand."""
        return self.judged.verdict.exclusion(ended=self.judged.state.is_terminal)

    @property
    def is_result(self) -> bool:
        """Tell whether its numbers may stand."""
        return not self.exclusion


def metrics(runs: Runs | None = None, names: Sequence[str] = (), *, tell: Tell = unheard) -> list[RunMetrics]:
    """Read the metrics of these runs by name; of the latest launch where no run is named, all metrics without names.

    A name is one with `*`, `?` or `[…]` as in a shell, or a part of one. `tell` receives the runs that cannot be
    queried now. Raises NoSuchRun, RlxError where no run has a metric of such a name, and the error of a host of which
    nothing is known yet.
    """
    from itertools import chain

    from rlx.api.judged_comparison import judged_arms
    from rlx.api.runs import open_index, runs_or_latest

    index = open_index()
    refs = runs_or_latest(index, runs)
    judged = chain.from_iterable(judged_arms(index, [refs], tell))
    found = [RunMetrics(ref, run, _series(run, names)) for ref, run in zip(refs, judged, strict=True)]
    if not any(each.series for each in found):
        raise _none_found([each.judged for each in found], names)
    return found


def _series(run: JudgedRun, names: Sequence[str]) -> dict[str, dict[int, float]]:
    from rlx.evidence import series
    from rlx.evidence.metrics import is_named, metric_names

    chosen = sorted(name for name in metric_names(run.evidence) if is_named(name, names))
    return {name: series(run.evidence, name) for name in chosen}


def _none_found(judged: Sequence[JudgedRun], names: Sequence[str]) -> RlxError:
    from difflib import get_close_matches

    from rlx.evidence.metrics import metric_names

    known = sorted({name for run in judged for name in metric_names(run.evidence)})
    if not known:
        return RlxError("no metric was logged yet", "rlx logs shows what was printed")
    near = list(dict.fromkeys(each for name in names for each in get_close_matches(name, known, n=2, cutoff=0.4)))
    hint = f"did you mean {', '.join(near)}? " if near else ""
    return RlxError(f"no metric is called {' or '.join(names)}", f"{hint}rlx metrics RUN lists all {len(known)}")


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
    """Tell whether the package is installed; a folder of that name, such as trackers make, does not count."""
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
    from rlx.api.generated_files import made_by

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
        "trainer": f"{judged.plan.backend} {judged.plan.backend_version}" if judged.plan.backend else "unknown",
        "written": made_by(),
    }


def _points(each: RunMetrics) -> Iterator[MetricPoint]:
    """Each step with its values and its time: the launch, and what the steps up to it took by the log."""
    from rlx.evidence.metrics import step_times

    by_step: dict[int, dict[str, float]] = {}
    for name, values in each.series.items():
        for step, value in values.items():
            by_step.setdefault(step, {})[name] = value
    moment, seconds = each.ref.created, step_times(each.judged.evidence)
    for step in sorted(by_step):
        moment += seconds.get(step, 0.0)
        yield MetricPoint(step, moment, by_step[step])
