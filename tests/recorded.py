"""Recorded run directories, also those in a bundle, laid into the run root of a test."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from rlx.model import Expectations, salvage_jsonable
from rlx.runs.bundles.bundle_file import RUNS, belongs, unpack_tar
from rlx.runs.index.registrations import FOLDER


def place_runs(folder: Path) -> list[Path]:
    """Copy the runs of `folder` below $RLX_ROOT as rlx leaves runs that have ended, and name their directories."""
    placed = [Path(os.environ["RLX_ROOT"]) / "runs" / recorded.name for recorded in _runs_in(folder)]
    for run in placed:
        _place(folder / run.name, run)
    return placed


def place_bundle(bundle: Path) -> list[Path]:
    """Copy those runs of a bundle that are there in full below $RLX_ROOT, and their registrations into $RLX_HOME."""
    with tempfile.TemporaryDirectory() as scratch:
        unpacked = Path(scratch)
        unpack_tar(bundle, unpacked, belongs)
        if (unpacked / FOLDER).exists():
            shutil.copytree(unpacked / FOLDER, Path(os.environ["RLX_HOME"]) / FOLDER, dirs_exist_ok=True)
        for run in _runs_in(unpacked / RUNS):
            if not (run / "attempts/1/log").is_file():
                shutil.rmtree(run)
        return place_runs(unpacked / RUNS)


def _runs_in(folder: Path) -> list[Path]:
    return sorted(manifest.parent for manifest in folder.glob("*/manifest.json"))


def _place(recorded: Path, run: Path) -> None:
    shutil.copytree(recorded, run)
    manifest = run / "manifest.json"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(
        text.replace(json.loads(text)["plan"]["site"]["root"], os.environ["RLX_ROOT"]), encoding="utf-8"
    )
    attempts = sorted((run / "attempts").iterdir(), key=lambda attempt: int(attempt.name))
    for attempt in attempts:
        (attempt / "state/started").touch()
    (run / "latest").symlink_to(f"attempts/{attempts[-1].name}")


def recorded_expectations(promised: dict[str, Any]) -> Expectations:
    """What a plan of any version promised: a recorded one has none of the later fields."""
    return salvage_jsonable(Expectations, promised, "expectations")[0]
