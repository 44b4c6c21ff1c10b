"""Take a bundle apart, change it, and put it together again, as somebody would who wants it to say something else."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlx.runs.bundles.bundle_file import write_tar

TOP = "rlx-bundle"


def apart(bundle: Path, folder: Path) -> Path:
    """The files of a bundle, below `folder`."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["tar", "-C", folder, "-xf", bundle], check=True)
    return folder / TOP


def together(folder: Path, bundle: Path) -> Path:
    names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    with bundle.open("wb") as file:
        write_tar(folder, names, "made by rlx", file)
    return bundle


def sum_up(folder: Path) -> None:
    """Write the list of digests anew, as a careful forger does."""
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    sums = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (folder / "SHA256SUMS").write_text(
        "".join(line for line in sums if not line.endswith("  SHA256SUMS\n")), encoding="utf-8"
    )


def edit_json(path: Path, edit: Callable[[Any], None]) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    edit(document)
    path.write_text(json.dumps(document), encoding="utf-8")
