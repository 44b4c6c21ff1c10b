"""The tiny models of rehearsals, made once each: RLX_HOME/cache/models/<digest>."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.errors import RlxError

if TYPE_CHECKING:
    from rlx.planning.tiny_shapes import TinyModel


def order(model: TinyModel) -> str:
    """Write the order for payload/tiny_model.py."""
    return json.dumps({"model_type": model.model_type, "chat": model.chat, "config": dict(model.config)})


def folder_of(order: str, version: str) -> Path:
    """Name the folder of the model made of this order by these programs, for this version of what trains it."""
    from rlx.api.home import rlx_home

    parts = [order.encode(), version.encode(), *(program.read_bytes() for program in _programs())]
    return rlx_home() / "cache" / "models" / hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _programs() -> tuple[Path, Path]:
    """Name the files that make a tiny model: the program, and what it imports."""
    from rlx.resources import payload_folder

    return payload_folder() / "tiny_model.py", payload_folder() / "tiny_addition.py"


def make(order: str, folder: Path, fix: str) -> None:
    """The folder is there as a whole or not at all. Raises RlxError, with this fix, where the programs fail."""
    beside = folder.with_name(f".{folder.name}-{os.getpid()}")
    made = subprocess.run(
        [sys.executable, str(_programs()[0]), str(beside), order],
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    if made.returncode:
        shutil.rmtree(beside, ignore_errors=True)
        said = made.stderr.strip().splitlines() or [f"exit {made.returncode}"]
        raise RlxError(f"the tiny model could not be made: {said[-1]}", fix)
    _keep(beside, folder)


def _keep(beside: Path, folder: Path) -> None:
    try:
        beside.rename(folder)
    except OSError:  # Another rehearsal was faster; what it made is the same.
        shutil.rmtree(beside, ignore_errors=True)
