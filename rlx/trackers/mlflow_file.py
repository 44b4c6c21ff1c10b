"""Write for MLflow: a SQLite file, which `mlflow ui` shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlx.trackers.exported_run import ExportedRun, flat

if TYPE_CHECKING:
    from mlflow import MlflowClient

# The small package has no store; a SQLite file needs two more packages.
PACKAGES = ("mlflow", "sqlalchemy", "alembic")
# MLflow refuses other characters in names; trainers that log to it also write `mean_at_1`.
_NOT_IN_NAMES = re.compile(r"[^\w/.: -]")
_NOTE = "mlflow.note.content"
# Its limits per call and per value.
_METRICS, _PARAMS, _LONGEST_PARAM = 1000, 100, 500


def environment(folder: Path) -> Mapping[str, str]:
    return {"MLFLOW_TRACKING_URI": _uri(folder), "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}


def write(runs: Sequence[ExportedRun], folder: Path) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(_uri(folder))
    for project in dict.fromkeys(run.project for run in runs):
        artifacts = (folder / "artifacts" / project).absolute().as_uri()
        experiment = client.create_experiment(project, artifact_location=artifacts)
        for run in runs:
            if run.project == project:
                _write(client, experiment, run)


def _write(client: MlflowClient, experiment: str, run: ExportedRun) -> None:
    from mlflow.entities import Metric, Param

    tags = {_NOTE: run.notes, **{f"rlx.{name}": value for name, value in run.tags.items()}}
    begin, end = (_milliseconds(run.points[at].time) if run.points else 0 for at in (0, -1))
    written = client.create_run(experiment, start_time=begin, tags=tags, run_name=run.name).info.run_id
    params = [Param(name, str(value)[:_LONGEST_PARAM]) for name, value in flat(run.config, "recipe.")]
    for some in _parts(iter(params), _PARAMS):
        client.log_batch(written, params=some)
    metrics = (
        Metric(_metric_name(name), value, _milliseconds(point.time), point.step)
        for point in run.points
        for name, value in point.values.items()
    )
    for some in _parts(metrics, _METRICS):
        client.log_batch(written, metrics=some)
    client.set_terminated(written, end_time=end)


def _metric_name(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name.replace("@", "_at_"))


def _parts(items: Iterator[Any], most: int) -> Iterator[list[Any]]:
    while some := list(islice(items, most)):
        yield some


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def next_command(runs: Sequence[ExportedRun], folder: Path) -> str:
    return f"mlflow ui --backend-store-uri {shlex.quote(_uri(folder))}"


def _uri(folder: Path) -> str:
    return f"sqlite:///{folder.absolute()}/mlflow.db"
