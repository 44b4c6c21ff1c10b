"""Write for Trackio: a SQLite file per project, which `trackio show` shows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlx.trackers.exported_run import ExportedRun

PACKAGES = ("trackio",)


def environment(folder: Path) -> Mapping[str, str]:
    return {"TRACKIO_DIR": str(folder), "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


def write(runs: Sequence[ExportedRun], folder: Path) -> None:
    import trackio

    for run in runs:
        trackio.init(
            project=run.project,
            name=run.name,
            group=run.tags["experiment"],
            # It has no tags and no notes.
            config={**run.settings, "notes": run.notes},
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        for point in run.points:
            trackio.log(dict(point.values), step=point.step)
        trackio.finish()


def next_command(runs: Sequence[ExportedRun], folder: Path) -> str:
    return f"TRACKIO_DIR={shlex.quote(str(folder))} trackio show --project {shlex.quote(runs[0].project)}"
