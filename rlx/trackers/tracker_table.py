"""The trackers that runs can be exported to: a row each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

from rlx.errors import UsageError
from rlx.trackers.exported_run import ExportedRun

TRACKERS = {
    "tensorboard": "rlx.trackers.tensorboard",
    "wandb": "rlx.trackers.wandb_offline",
    "swanlab": "rlx.trackers.swanlab_offline",
    "mlflow": "rlx.trackers.mlflow_file",
    "trackio": "rlx.trackers.trackio_local",
}


class Tracker(Protocol):
    """A module that writes runs into a folder, for one tracker, and sends nothing anywhere.

    `PACKAGES`: the modules that it needs; without any it writes in this process, else in one of its own. Each extra of
    rlx has the name of its tracker.
    """

    PACKAGES: Sequence[str]

    def environment(self, folder: Path) -> Mapping[str, str]:
        """Set what keeps the package offline and in this folder."""

    def write(self, runs: Sequence[ExportedRun], folder: Path) -> None:
        """Write the runs below the folder, which is empty."""

    def next_command(self, runs: Sequence[ExportedRun], folder: Path) -> str:
        """Say how a person looks at them."""


def tracker_of(name: str) -> Tracker:
    """The module of a tracker. Raises UsageError for one that rlx does not know."""
    if name not in TRACKERS:
        raise UsageError(f"--to {name}: rlx knows no such tracker", f"one of {', '.join(TRACKERS)}")
    module: Tracker = import_module(TRACKERS[name])
    return module
