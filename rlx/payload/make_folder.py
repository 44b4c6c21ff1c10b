"""Fills a folder by a program, wholly or not at all, on the machine where it is to lie. Standard library only.

    python make_folder.py FOLDER PACKAGE… [--force] <PROGRAM      the program gets the folder to fill as its argument

What is complete already is left alone. Prints one JSON line: `folder`, `made`, and on failure `problem` and `detail`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MARKER = "digests.json"


def main(folder: Path, packages: list[str], program: bytes, force: bool) -> dict[str, object]:
    said: dict[str, object] = {"folder": str(folder), "made": False}
    if not force and is_complete(folder, program):
        return said
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        return {**said, "problem": "packages", "detail": f"{', '.join(missing)}, which {sys.executable} lacks"}
    if is_foreign(folder):
        return {**said, "problem": "foreign", "detail": ""}
    try:
        make(folder, program)
    except (OSError, subprocess.CalledProcessError) as problem:
        return {**said, "problem": "failed", "detail": str(problem)}
    return {**said, "made": True}


def is_complete(folder: Path, program: bytes) -> bool:
    """Whether the folder holds exactly what this version of the program wrote there."""
    marker = folder / MARKER
    return marker.is_file() and json.loads(marker.read_text(encoding="utf-8")) == digests(folder, program)


def digests(folder: Path, program: bytes) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MARKER)
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    return {name: hashlib.sha256(content).hexdigest() for name, content in {**found, "maker": program}.items()}


def is_foreign(folder: Path) -> bool:
    """Only what a program wrote for rlx may be replaced."""
    return folder.exists() and not (folder / MARKER).is_file() and (not folder.is_dir() or any(folder.iterdir()))


def make(folder: Path, program: bytes) -> None:
    """Build beside the target and rename, so that the folder is either whole or as it was."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
        built = Path(beside, "new")
        # A process of its own; what it tells goes to stderr, for stdout is the answer. It starts in an empty folder,
        # for Python imports from where it is started.
        subprocess.run([sys.executable, "-", str(built)], input=program, stdout=2, check=True, cwd=beside)
        (built / MARKER).write_text(json.dumps(digests(built, program), indent=1), encoding="utf-8")
        if folder.exists():
            folder.rename(Path(beside, "old"))
        built.rename(folder)
        shutil.rmtree(Path(beside, "old"), ignore_errors=True)


if __name__ == "__main__":
    path, *words = sys.argv[1:]
    folder = Path(os.path.abspath(os.path.expanduser(path)))  # noqa: PTH100, PTH111  # an unknown ~user is no crash
    names = [word for word in words if word != "--force"]
    print(json.dumps(main(folder, names, sys.stdin.buffer.read(), "--force" in words)))
