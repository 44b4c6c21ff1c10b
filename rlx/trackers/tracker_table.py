"""Find the trackers that runs can be exported to: rlx's and those of other distributions (group `rlx.trackers`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from rlx.errors import UsageError
from rlx.plug_ins import load, plug_ins
from rlx.trackers.exported_run import ExportedRun

GROUP = "rlx.trackers"
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
        """Return the variables that keep the package offline and in this folder."""

    def write(self, runs: Sequence[ExportedRun], folder: Path) -> None:
        """Write the runs below the folder, which is empty."""

    def next_command(self, runs: Sequence[ExportedRun], folder: Path) -> str:
        """Return the command that shows them."""


def tracker_names() -> tuple[str, ...]:
    """List the trackers, those of other distributions last."""
    return (*TRACKERS, *(name for name in plug_ins(GROUP) if name not in TRACKERS))


def tracker_of(name: str) -> Tracker:
    """Import the module of a tracker.

    Raises UsageError for an unknown one, RlxError for one of another distribution that cannot be loaded.
    """
    if name not in tracker_names():
        raise UsageError(
            f"--to {name}: rlx knows no such tracker",
            f"one of {', '.join(tracker_names())}; others come with a distribution (entry point {GROUP})",
        )
    module: Any = import_module(TRACKERS[name]) if name in TRACKERS else load(GROUP, name, plug_ins(GROUP)[name])
    return cast("Tracker", module)
