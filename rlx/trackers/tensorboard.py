"""TensorBoard: a folder for each run with an event file, which takes no package to write."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlx.trackers.event_file import event_file
from rlx.trackers.exported_run import ExportedRun

PACKAGES = ()
_NOT_IN_NAMES = re.compile(r"[^\w .,:@+\[\]-]|^\.+")
_LONGEST_NAME = 200


def environment(folder: Path) -> Mapping[str, str]:
    return {}


def write(runs: Sequence[ExportedRun], folder: Path) -> None:
    for run in runs:
        place = folder / _file_name(run.project) / _file_name(run.name)
        place.mkdir(parents=True)
        begin = run.points[0].time if run.points else 0.0
        file = place / f"events.out.tfevents.{begin:.0f}.rlx"
        file.write_bytes(event_file(begin, _texts(run), run.points))


def next_command(runs: Sequence[ExportedRun], folder: Path) -> str:
    return f"tensorboard --logdir {shlex.quote(str(folder))}"


def _texts(run: ExportedRun) -> dict[str, str]:
    """The page "Text" shows them; TensorBoard has no tags of runs but these."""
    return {"rlx/verdict in a sentence": run.notes, **{f"rlx/{name}": value for name, value in run.tags.items()}}


def _file_name(text: str) -> str:
    """TensorBoard calls a run after its folder."""
    return _NOT_IN_NAMES.sub("_", text)[:_LONGEST_NAME]
