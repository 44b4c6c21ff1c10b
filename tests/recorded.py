"""Recorded run directories, laid into the run root of a test."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from rlx.plan import Expectations, salvage_jsonable


def place_runs(folder: Path) -> list[Path]:
    """Copy the runs of `folder` below $RLX_ROOT as rlx leaves runs that have ended, and name their directories."""
    placed = [Path(os.environ["RLX_ROOT"]) / "runs" / recorded.name for recorded in _runs_in(folder)]
    for run in placed:
        _place(folder / run.name, run)
    return placed


def _runs_in(folder: Path) -> list[Path]:
    return sorted(manifest.parent for manifest in folder.glob("*/manifest.json"))


def _place(recorded: Path, run: Path) -> None:
    shutil.copytree(recorded, run)
    manifest = run / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace(json.loads(text)["plan"]["site"]["root"], os.environ["RLX_ROOT"]))
    (run / "attempts/1/state/started").touch()
    (run / "latest").symlink_to("attempts/1")


def recorded_expectations(promised: dict[str, Any]) -> Expectations:
    """What a plan of any version promised: a recorded one has none of the later fields."""
    return salvage_jsonable(Expectations, promised, "expectations")[0]
