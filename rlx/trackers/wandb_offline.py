"""Write for Weights & Biases: offline runs, which the user sends with `wandb sync`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlx.trackers.exported_run import ExportedRun

PACKAGES = ("wandb",)
_LONGEST_TAG = 64


def environment(folder: Path) -> Mapping[str, str]:
    return {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false", "WANDB_DIR": str(folder)}


def write(runs: Sequence[ExportedRun], folder: Path) -> None:
    import wandb

    # By default it records this machine's packages, load and console as those of the run.
    settings = wandb.Settings(
        mode="offline",
        silent=True,
        console="off",
        disable_git=True,
        save_code=False,
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
    )
    for run in runs:
        with wandb.init(
            dir=str(folder),
            project=run.project,
            name=run.name,
            notes=run.notes,
            group=run.tags["experiment"],
            job_type=run.tags["arm"],
            tags=[label[:_LONGEST_TAG] for label in run.labels],
            config=run.settings,
            settings=settings,
        ) as written:
            for point in run.points:
                written.log({**point.values, "_timestamp": point.time}, step=point.step)


def next_command(runs: Sequence[ExportedRun], folder: Path) -> str:
    return f"wandb sync {shlex.quote(str(folder))}/wandb/offline-run-*"
