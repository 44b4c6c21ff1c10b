"""Write for SwanLab: offline runs, which the user sends with `swanlab sync`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlx.trackers.exported_run import ExportedRun

PACKAGES = ("swanlab",)
_LONGEST_DESCRIPTION = 1024


def environment(folder: Path) -> Mapping[str, str]:
    return {"SWANLAB_MODE": "offline", "SWANLAB_LOG_DIR": str(folder), "SWANLAB_INTERACTIVE": "false"}


def write(runs: Sequence[ExportedRun], folder: Path) -> None:
    import swanlab

    # By default it records this machine's devices, packages and console as those of the run.
    nothing = dict.fromkeys(("hardware", "runtime", "requirements", "git", "monitor"), False)
    settings = swanlab.Settings(
        probe=swanlab.Settings.Probe(**nothing), terminal=swanlab.Settings.Terminal(proxy_type="none")
    )
    for run in runs:
        swanlab.init(
            mode="offline",
            log_dir=str(folder),
            project=run.project,
            name=run.name,
            description=run.notes[:_LONGEST_DESCRIPTION],
            group=run.tags["experiment"],
            job_type=run.tags["arm"],
            tags=run.labels,
            config=run.settings,
            settings=settings,
        )
        for point in run.points:
            swanlab.log(dict(point.values), step=point.step)
        swanlab.finish()


def next_command(runs: Sequence[ExportedRun], folder: Path) -> str:
    return f"swanlab sync {shlex.quote(str(folder))}/run-*"
